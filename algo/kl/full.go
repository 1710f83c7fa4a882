package kl

// The estimator "full" (spec 5.5), the KL over the whole vocabulary:
//
//	KL(π, π_ref) = Σ_v π(v) (log π(v) - log π_ref(v))
//
// It has no sampling noise, and needs the logits of both models for every token in
// memory. verl declares the name and does not implement it.

import "github.com/openmanus/openmanus/torch"

// Exact returns the KL of every token [M] from the logits [M,V] of two models, with the
// gradient to the policy's logits.
func Exact(logits, refLogits torch.Tensor) torch.Tensor {
	logp := logits.LogSoftmax(-1)
	return logp.Exp().Mul(logp.Sub(refLogits.LogSoftmax(-1))).SumDim(-1, false)
}
