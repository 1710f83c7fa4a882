// Package curriculum decides what a step of training plays: how many turns an
// episode may take so far, and which tasks come next where those that teach
// most shall, or where those that were lost again and again shall rest.
//
// Everything follows from the seed and from what was reported; a Sampler's
// State is all that a checkpoint has to keep. It does not know episodes or
// environments: tasks are numbers. One goroutine uses a Sampler.
package curriculum
