// Package engine turns many concurrent requests for replies into batches of
// model work.
//
// It owns the Engine contract that agents program against and the Scheduler,
// which implements it over a Backend: continuous batching, chunked prefill,
// the KV budget, parking of sessions, stop conditions, exclusive phases for training.
// Tensors, KV memory and sampling belong to the Backend, so this package needs
// no libtorch and is tested with a fake backend.
//
// Concurrency: every method of Scheduler may be called by any goroutine; calls
// for one session must not overlap, except Close. New starts one goroutine, which
// alone calls Backend.Step; Shutdown waits for it.
package engine
