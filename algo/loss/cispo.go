package loss

// CISPO: the importance weight is clipped instead of the update, so that every
// token keeps its gradient.
//
//	ℓ = -sg(clip(ρ, 1-ε_low, 1+ε_high)) A log π
//
// Source: MiniMax-M1, arXiv:2506.13585, section 3.1. The paper has no lower bound;
// a large clip_ratio_low has the same effect. pg_clipfrac is the share of clipped
// weights.

import (
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

func init() {
	Policies.Add(registry.Entry{Name: "cispo", Doc: "clips the importance weight and keeps the gradient of every token", Params: clipBounds}, Policy{Loss: cispo})
}

func cispo(_ *torch.Scope, b Batch, o Options) (torch.Tensor, Sums) {
	x := b.logRatio()
	ratio := x.Detach().Exp()
	weight := ratio.Clamp(1-clipLow.In(o.Params), 1+clipHigh.In(o.Params))
	l := weight.Mul(b.Adv).Mul(b.LogP).Neg()
	return b.weigh(l), Sums{ClipFrac: count(weight.Ne(ratio)), PPOKL: klSum(x)}
}
