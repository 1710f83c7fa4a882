// Package engine turns many concurrent requests for replies into batches of
// model work.
//
// It contains the interface Engine, which agents use, and the Scheduler, which
// implements Engine over a Backend: continuous batching, chunked prefill, the
// KV budget, parking of sessions, stop conditions, exclusive phases for
// training. Backends implement tensors, KV memory and sampling, so this package
// needs no libtorch and is tested with a fake backend.
//
// Concurrency: any goroutine may call every method of Scheduler; calls for one
// session must not overlap, except Close. New starts one goroutine, which alone
// calls Backend.Step; Shutdown waits for it.
package engine
