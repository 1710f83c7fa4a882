package loss

// Geometric-mean policy optimisation: the ratio of a row is the geometric mean
// of the clipped ratios of its tokens.
//
//	x̂_t = sgn(A) min(sgn(A) x_t, sgn(A) clip(x_t, -ε_low, ε_high))
//	ρ_i = exp(mean_t x̂_t);   ℓ_i = -mean_t(A_t) ρ_i
//
// Source: Zhao et al., GMPO, arXiv:2507.20673. The bounds apply to log-ratios; the
// paper uses 0.4. The method assumes one advantage per row. Its loss ℓ_i is
// one number per row. Every token of the row has the loss ℓ_i, so the mean over the
// row is ℓ_i. Weights of a rollout correction enter as their geometric mean.

import (
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

func init() {
	Policies.Add(registry.Entry{Name: "geo_mean", Doc: "geometric mean of the clipped ratios of a sequence", Params: clipBounds}, Policy{Loss: geoMean, Agg: SeqMeanTokenMean})
}

func geoMean(s *torch.Scope, b Batch, o Options) (torch.Tensor, Sums) {
	x := b.LogP.Sub(b.Old)
	cut := x.Clamp(-clipLow.In(o.Params), clipHigh.In(o.Params))
	up := b.Adv.GtScalar(0)
	down := b.Adv.LtScalar(0)
	pessimistic := torch.Where(up, x.Minimum(cut), torch.Where(down, x.Maximum(cut), x.MulScalar(0)))
	ratio := b.rowMeans(s, pessimistic).Exp()
	l := b.rowMeans(s, b.Adv).Mul(ratio).Neg()
	if !b.Weights.None() {
		l = l.Mul(b.rowMeans(s, b.Weights.AddScalar(1e-10).Log()).Exp())
	}
	changed := cut.Ne(x)
	return l, Sums{ClipFrac: count(changed.And(up)), ClipFracLower: count(changed.And(down)), PPOKL: klSum(x)}
}
