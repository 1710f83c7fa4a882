// Package checkpoint keeps the checkpoints of a run: one folder a step, there
// whole or not at all, whatever moment the process or the machine dies at.
//
//	step_000040.tmp/      being written: ignored, removed at the next start
//	step_000040/          complete: renamed after every byte was synced
//	    manifest.json     size and SHA-256 of every file
//	    ...               what the caller wrote
//
// It owns the folder protocol, verification, retention and the lock that keeps
// a second trainer out of a run folder. It does not know what is in a
// checkpoint; the caller writes the files through a callback.
//
// Saving and cleaning belong to the one process that holds the run's lock, and
// in it to one goroutine at a time. Listing and opening are safe beside them,
// except that a folder may be pruned while it is read.
package checkpoint
