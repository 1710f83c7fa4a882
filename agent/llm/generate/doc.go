// Package generate is the engine's local backend: it samples from a
// model.Model that this process holds.
//
// It owns the paged KV cache and its blocks, the packing of prefill chunks and
// decode rows into one call, and the keys of the random draws. The weights
// belong to package model and the trainer that updates them; agent/llm/engine
// decides which sequence runs when.
//
// Concurrency: Step and Drop belong to the scheduler's goroutine; Version,
// Capacity and BlockSize may be called by any goroutine. SetVersion is called
// while the scheduler is paused, Close after it has ended. All tensor work
// runs in torch.Run on the model's thread, so sampling and training never
// touch the weights at the same time.
package generate
