// Package reward turns what happened in an episode into the numbers an
// optimiser uses. A signal reduces the environment's rewards to one score; a
// score function judges the replies themselves; a Composer adds several of
// either, with weights; an allocation spreads the score over the sampled
// tokens.
//
// It knows no tensors and no network: score functions of the user's, behind
// HTTP or a pipe, are in reward/external, and scorers that need a model live
// in algo, both behind the types of this package. All functions are pure and
// may run concurrently.
package reward
