// Package learner turns rows into updated weights: the actor and the critic with
// their optimisers, losses and gradients, the packing of rows into forward
// passes, micro-batches, passes over a batch, skipped optimiser steps, and reward
// models as score functions. With several processes it deals the rows of a pass to the
// ranks (MicroBatching.Group).
//
// The package uses rows, not episodes: playing, scoring, advantages and the order of
// phases belong to package algo.
//
// A method runs its tensor operations on the thread of its model. One goroutine
// uses an Actor and its Critic at a time.
package learner
