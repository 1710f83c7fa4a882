// Package rundir owns the folder of a run: the names of its parts, the episodes
// of each step, the state that a checkpoint holds besides the weights, the best
// validation so far, and the set-aside folder for files that are replaced when the
// run continues from an older checkpoint.
//
// Package checkpoint below it owns the checkpoint folders and the lock. Neither
// package uses models or tensors.
//
// A folder is written by the process that holds its lock, from one goroutine.
// Other processes can read it safely at the same time.
package rundir
