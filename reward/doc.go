// Package reward turns what an environment said about an episode into the
// numbers an optimiser uses: a signal reduces the turns' rewards to one score,
// an allocation spreads that score over the sampled tokens.
//
// It knows no tensors and no network. Scorers that need a model live in algo,
// behind the types of this package. All functions are pure and may run
// concurrently.
package reward
