// Package rundir owns the folder of a run: the names of its parts, the episodes
// of each step, the state that a checkpoint holds besides the weights, the best
// validation so far, and the set-aside folder for what a branch from an older
// checkpoint replaces.
//
// Package checkpoint below it owns the checkpoint folders and the lock. Neither
// knows models or tensors.
//
// A folder is written by the process that holds its lock, from one goroutine.
// Reading is safe beside it.
package rundir
