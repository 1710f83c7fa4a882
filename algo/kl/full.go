package kl

// The KL over the whole vocabulary:
//
//	KL(π, π_ref) = Σ_v π(v) (log π(v) - log π_ref(v))
//
// (spec 5.5, full: named in verl and implemented in neither predecessor). It has
// no sampling noise and needs both models' logits of every token in memory.

import "github.com/openmanus/openmanus/torch"

// Exact is the KL of every token [M] from the scores [M,V] of two models, with
// the gradient to those of the policy.
func Exact(logits, refLogits torch.Tensor) torch.Tensor {
	logp := logits.LogSoftmax(-1)
	return logp.Exp().Mul(logp.Sub(refLogits.LogSoftmax(-1))).SumDim(-1, false)
}
