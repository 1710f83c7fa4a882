package loss

// SAPO: a soft gate on the ratio in place of a clip.
//
//	ℓ = -A (4/τ) σ(τ (ρ - 1)),   τ = tau_pos where A > 0, tau_neg elsewhere
//
// At ρ = 1 its gradient is that of the plain ratio, and it fades away from it,
// faster for negative advantages. Source: Gao et al., arXiv:2511.20347. The mean
// over rows of the mean over tokens belongs to it.

import "github.com/openmanus/openmanus/torch"

func init() { Policies.Register("sapo", Policy{Loss: sapo, Agg: SeqMeanTokenMean}) }

func sapo(_ *torch.Scope, b Batch, o Options) (torch.Tensor, Sums) {
	x := b.logRatio()
	off := x.Exp().AddScalar(-1)
	gate := func(tau float64) torch.Tensor { return off.MulScalar(tau).Sigmoid().MulScalar(4 / tau) }
	l := torch.Where(b.Adv.GtScalar(0), gate(o.TauPos), gate(o.TauNeg)).Mul(b.Adv).Neg()
	return b.weigh(l), Sums{PPOKL: klSum(x)}
}
