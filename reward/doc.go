// Package reward computes the token rewards of an episode. A signal reduces the
// environment's rewards to one score; a score function scores the replies; a
// Composer adds several such scores with weights; an allocation distributes the score
// over the sampled tokens.
//
// The package does not use tensors or the network. Package reward/external holds
// the user's score functions, which run behind HTTP or a pipe; package algo holds
// the scorers that need a model; both implement the types of this package. All
// functions are pure and may run concurrently.
package reward
