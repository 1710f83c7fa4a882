package loss

// Bypass: the log-probs recorded at sampling serve as the old log-probs, which are
// not recomputed. The difference between sampling and training is then part of
// the ratio.
//
//	ppo_clip   vanilla on ρ = π / π_rollout
//	reinforce  ℓ = -sg(w) A log π,  w = min(ρ, cap), with ρ per token or its product over
//	           the row; with a floor (IcePop) w = ρ within [floor, cap] and 0 outside
//
// Source: verl's rollout correction, bypass_mode (spec 5.10). Batch.Old holds
// the recorded log-probs.

import (
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

// The name of the loss, and the values of BypassLoss and BypassWeights.
const (
	Bypass     = "bypass_mode"
	PPOClip    = "ppo_clip"
	Reinforce  = "reinforce"
	ByToken    = "token"
	BySequence = "sequence"
)

func init() {
	Policies.Add(registry.Entry{Name: Bypass, Doc: "the loss of algo.rollout_correction.bypass_mode", Params: append([]registry.Param{clipC.Param}, clipBounds...)}, Policy{Loss: bypass})
}

func bypass(s *torch.Scope, b Batch, o Options) (torch.Tensor, Sums) {
	if o.BypassLoss != Reinforce {
		return vanilla(s, b, o)
	}
	x := b.logRatio()
	l := b.Adv.Mul(b.LogP).Neg()
	logW := x.Detach()
	switch o.BypassWeights {
	case ByToken:
	case BySequence:
		logW = b.rowSums(s, logW).Clamp(-maxLogRatio, maxLogRatio)
	default:
		return l, Sums{PPOKL: klSum(x)}
	}
	w := logW.Exp()
	if o.BypassWeightsFloor > 0 {
		inside := w.GeScalar(o.BypassWeightsFloor).And(w.LeScalar(o.BypassWeightsCap))
		w = torch.Where(inside, w, w.MulScalar(0))
	}
	return w.Clamp(0, o.BypassWeightsCap).Mul(l), Sums{PPOKL: klSum(x)}
}
