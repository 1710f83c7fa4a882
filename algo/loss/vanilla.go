package loss

// PPO's clipped loss with separate bounds and the dual clip (verl's vanilla):
//
//	x = clamp(log π - log π_old, ±20),  ρ = exp(x)
//	ℓ = max(-A ρ, -A clip(ρ, 1-ε_low, 1+ε_high)),  for A < 0: min(ℓ, -A c)
//
// Sources: Schulman et al., arXiv:1707.06347 (clip); Ye et al.,
// arXiv:1912.09729 (dual clip c); Yu et al., DAPO, arXiv:2503.14476
// (clip-higher: ε_high > ε_low).

import (
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

func init() {
	Policies.Add(registry.Entry{Name: "vanilla", Doc: "PPO's clipped loss with the dual clip", Params: append([]registry.Param{clipC.Param}, clipBounds...)}, Policy{Loss: vanilla})
}

func vanilla(_ *torch.Scope, b Batch, o Options) (torch.Tensor, Sums) {
	x := b.logRatio()
	l, cut := clipped(x.Exp(), b.Adv, o)
	sums := Sums{ClipFrac: count(cut), PPOKL: klSum(x)}
	if clipC.In(o.Params) != 0 {
		bound := b.Adv.MulScalar(-clipC.In(o.Params))
		negative := b.Adv.LtScalar(0)
		sums.ClipFracLower = count(l.Gt(bound).And(negative))
		l = torch.Where(negative, l.Minimum(bound), l)
	}
	return b.weigh(l), sums
}
