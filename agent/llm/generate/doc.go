// Package generate is the engine's local backend: it samples from a model.Model
// in this process.
//
// It contains the paged KV cache and its blocks, the packing of prefill chunks
// and decode rows into one call, the keys of the random draws, and the steps of
// a tensor-parallel model (see Lead). Package model has the
// weights, which the trainer updates; agent/llm/engine schedules the sequences.
//
// Concurrency: only the scheduler's goroutine calls Step and Drop; any
// goroutine may call Version, Capacity and BlockSize. SetVersion, Lead, Dismiss and Follow are called
// while the scheduler is paused, and Close after it has ended. All tensor work
// runs in torch.Run on the model's thread, so sampling and training never touch
// the weights at the same time.
package generate
