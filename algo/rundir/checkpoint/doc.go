// Package checkpoint writes and reads the checkpoints of a run: one folder for each
// step, which exists completely or not at all, even if the process or the machine fails
// while it is written.
//
//	step_000040.tmp/      being written: ignored, removed at the next start
//	step_000040/          complete: renamed after every byte was synced
//	    manifest.json     size and SHA-256 of every file
//	    ...               the caller's files
//
// The package owns the folder protocol, verification, retention, and the lock that keeps
// a second process out of a run folder. It does not interpret the contents of a
// checkpoint; the caller writes the files in a callback.
//
// Only the process that holds the run's lock may save and clean, from one goroutine at
// a time. Listing and opening are safe in other processes, except that a folder may be
// pruned while it is read.
package checkpoint
