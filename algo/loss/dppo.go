package loss

// DPPO: tokens whose probability has moved too far in the direction of their
// advantage have no gradient; the others have a truncated importance weight.
//
//	ℓ = -sg(min(ρ, c)) A log π · M,   p = π, q = π_old
//
//	dppo_tv  M = 1 where  A > 0: p - q ≤ ε_high;  else: q - p ≤ ε_low
//	dppo_kl  M = 1 where  A > 0: D ≤ ε_high or p ≤ q;  else: D ≤ ε_low or p ≥ q
//	         D = q (log q - log p) + (1-q) log((1-q + 1e-8) / (1-p + 1e-8))
//
// The bounds apply to the divergence of the binary distribution "this token or
// another", because the ratio is a poor measure for rare tokens. Source: DPPO,
// arXiv:2602.04879, and verl's dppo_tv and dppo_kl. c is clip_ratio_c; section 5.4
// of the paper recommends a large value, such as 20. pg_clipfrac is the share of
// tokens with M = 0, pg_clipfrac_lower the share of tokens with a truncated weight.

import (
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

var dppoParams = []registry.Param{
	clipLow.WithDoc("divergence at which a token of negative advantage leaves the loss"),
	clipHigh.WithDoc("divergence at which a token of positive advantage leaves the loss"),
	clipC.WithDoc("largest ratio; 20 is recommended"),
}

func init() {
	Policies.Add(registry.Entry{Name: "dppo_tv", Doc: "masks tokens by the total variation of their probability", Params: dppoParams}, Policy{Loss: dppo(func(b Batch, p, q torch.Tensor, o Options) (up, down torch.Tensor) {
		moved := p.Sub(q)
		return moved.LeScalar(clipHigh.In(o.Params)), moved.GeScalar(-clipLow.In(o.Params))
	})})
	Policies.Add(registry.Entry{Name: "dppo_kl", Doc: "masks tokens by the KL of their probability", Params: dppoParams}, Policy{Loss: dppo(func(b Batch, p, q torch.Tensor, o Options) (up, down torch.Tensor) {
		// 1 and 1e-8 are added one after the other: in float32 their sum is 1, and log(1 - x) is infinite for x = 1.
		others := func(x torch.Tensor) torch.Tensor { return x.Neg().AddScalar(1).AddScalar(1e-8).Log() }
		rest := q.Neg().AddScalar(1).Mul(others(q).Sub(others(p)))
		d := q.Mul(b.Old.Sub(b.LogP.Detach())).Add(rest)
		return d.LeScalar(clipHigh.In(o.Params)).Or(p.Le(q)), d.LeScalar(clipLow.In(o.Params)).Or(p.Ge(q))
	})})
}

// dppo returns the loss whose kept tokens the function near selects: its result up is
// the mask for tokens of positive advantage, its result down the mask for the others.
func dppo(near func(b Batch, p, q torch.Tensor, o Options) (up, down torch.Tensor)) func(*torch.Scope, Batch, Options) (torch.Tensor, Sums) {
	return func(_ *torch.Scope, b Batch, o Options) (torch.Tensor, Sums) {
		x := b.logRatio().Detach()
		weight := x.Exp()
		up, down := near(b, b.LogP.Detach().Exp(), b.Old.Exp(), o)
		gain := b.Adv.GtScalar(0)
		stays := gain.And(up).Or(gain.Not().And(down))
		sums := Sums{ClipFrac: count(stays.Not()), PPOKL: klSum(x)}
		if clipC.In(o.Params) != 0 {
			sums.ClipFracLower = count(weight.GtScalar(clipC.In(o.Params)).And(stays))
			weight = weight.Clamp(0, clipC.In(o.Params))
		}
		l := weight.Mul(b.Adv).Mul(b.LogP).Neg()
		return b.weigh(torch.Where(stays, l, l.MulScalar(0))), sums
	}
}
