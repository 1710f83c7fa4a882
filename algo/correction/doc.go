// Package correction measures and corrects the distance between the policy that
// sampled and the policy that is trained: importance weights, rejection of
// tokens and sequences, and diagnostics. Both policies usually have the same weights
// and differ only in batches, kernels or number formats. After several updates on
// one batch, or with a separate sampling server, their weights differ too.
//
// In all files x = log π_old - log π_rollout on sampled tokens, where π_old is the
// training pass before the update (spec 5.10; verl's rollout correction). The
// package does not use tensors.
package correction
