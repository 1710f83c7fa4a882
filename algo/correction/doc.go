// Package correction measures and corrects the distance between the policy that
// sampled and the policy that is trained: importance weights, rejection of
// tokens and sequences, and diagnostics. Both policies have the same weights
// here, but other batches, kernels or number formats; with several updates on
// one batch, or a server that samples, they part for real.
//
// Everywhere x = log π_old - log π_rollout on sampled tokens, π_old being the
// training pass before the update (spec 5.10; verl's rollout correction). It
// knows no tensors.
package correction
