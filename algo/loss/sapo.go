package loss

// SAPO: a soft gate on the ratio in place of a clip.
//
//	ℓ = -A (4/τ) σ(τ (ρ - 1)),   τ = tau_pos where A > 0, tau_neg elsewhere
//
// At ρ = 1 the gradient equals the gradient of the unclipped ratio. It decays with the
// distance of ρ from 1, faster for negative advantages. Source: Gao et al.,
// arXiv:2511.20347. It requires the aggregation seq-mean-token-mean.

import (
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

var (
	tauPos = registry.NewParam("tau_pos", 1.0, "temperature of the gate for positive advantages", registry.Above(0))
	tauNeg = registry.NewParam("tau_neg", 1.05, "temperature of the gate for other advantages", registry.Above(0))
)

func init() {
	Policies.Add(registry.Entry{Name: "sapo", Doc: "soft gate on the ratio in place of a clip", Params: []registry.Param{tauPos.Param, tauNeg.Param}}, Policy{Loss: sapo, Agg: SeqMeanTokenMean})
}

func sapo(_ *torch.Scope, b Batch, o Options) (torch.Tensor, Sums) {
	x := b.logRatio()
	off := x.Exp().AddScalar(-1)
	gate := func(tau float64) torch.Tensor { return off.MulScalar(tau).Sigmoid().MulScalar(4 / tau) }
	l := torch.Where(b.Adv.GtScalar(0), gate(tauPos.In(o.Params)), gate(tauNeg.In(o.Params))).Mul(b.Adv).Neg()
	return b.weigh(l), Sums{PPOKL: klSum(x)}
}
