// Package engine turns many concurrent requests for replies into batches of
// model work.
//
// It owns the Engine contract that agents program against and the Scheduler,
// which implements it over a Backend: continuous batching, chunked prefill,
// the KV budget, parking of sessions, stop conditions, pauses for training.
// It does not own tensors, KV memory or sampling: those are the Backend's, so
// this package needs no libtorch and is tested with a fake backend.
//
// Concurrency: every method of Scheduler may be called by any goroutine; calls
// for one session must not overlap, Close excepted. One goroutine, started by
// New and waited for by Shutdown, is the only one that calls Backend.Step and
// Backend.Drop.
package engine
