package loss

// DRO: the policy gradient with a quadratic penalty on the log-ratio in place of
// a clip.
//
//	ℓ = -A log π + β/2 (log π - log π_old)²
//
// Source: Richemond et al., "Offline Regularised Reinforcement Learning for Large
// Language Models Alignment", arXiv:2405.19107, whose τ is β, and verl's dro. The
// old policy stands for the paper's reference, and A for its reward less the value.

import "github.com/openmanus/openmanus/torch"

func init() { Policies.Register("dro", Policy{Loss: dro}) }

func dro(_ *torch.Scope, b Batch, o Options) (torch.Tensor, Sums) {
	x := b.LogP.Sub(b.Old)
	l := x.Square().MulScalar(o.DROBeta / 2).Sub(b.Adv.Mul(b.LogP))
	return b.weigh(l), Sums{PPOKL: klSum(x)}
}
