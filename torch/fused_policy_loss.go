package torch

// #include "openmanus_torch.h"
import "C"

import (
	"fmt"
	"slices"
)

// PolicyLossOptions are the constants of the clipped policy loss.
type PolicyLossOptions struct {
	ClipLow    float64 // the ratio is clipped to [1 - ClipLow, 1 + ClipHigh]
	ClipHigh   float64
	ClipC      float64 // bound of the dual clip, above 1; 0 for none
	Normalizer float64 // what the sum over the tokens is divided by
}

// PolicyStats are sums over the tokens, each times its mask.
type PolicyStats struct {
	Mask          float64 // of the mask alone
	ClipFrac      float64 // tokens whose clipped side was taken
	ClipFracLower float64 // tokens that the dual clip cut
	PPOKL         float64 // old minus new log-prob
	Ratio         float64 // new over old probability
	RatioMax      float64 // the largest ratio, not a sum; 0 where the mask is empty
}

// PolicyLoss is Σ ℓ·mask / Normalizer of the PPO loss with separate lower and upper clip and dual clip, as verl's "vanilla"
// loss: with x = logp - oldLogp limited to ±20 and ρ = e^x, ℓ = max(-Aρ, -A clip(ρ)), and for A < 0 at most -A·ClipC. All four
// tensors are [N]; the gradient goes to logp. Where the mask is 0 nothing is looked at.
func PolicyLoss(logp, oldLogp, adv, mask Tensor, o PolicyLossOptions) (loss Tensor, stats PolicyStats) {
	const op = "PolicyLoss"
	var out C.om_tensor
	var sums C.om_policy_stats
	check(op, C.om_policy_loss(logp.in(op), oldLogp.in(op), adv.in(op), mask.in(op), C.double(o.ClipLow), C.double(o.ClipHigh),
		C.double(o.ClipC), C.double(o.Normalizer), &out, &sums), logp, oldLogp, adv, mask)
	return logp.out(out), PolicyStats{
		Mask:          float64(sums.mask),
		ClipFrac:      float64(sums.clip),
		ClipFracLower: float64(sums.clip_lower),
		PPOKL:         float64(sums.kl),
		Ratio:         float64(sums.ratio),
		RatioMax:      float64(sums.ratio_max),
	}
}

// klKinds are the estimators in the order of the C interface.
var klKinds = []string{"k1", "abs", "k2", "k3"}

// KLLoss is Σ kl·mask / normalizer for an estimator of KL(π, π_ref), with x = logp - refLogp: k1 is x, abs |x|, k2 x²/2, and
// k3 e^-x + x - 1 with the exponent limited to ±20 and the value to ±10. The gradient goes to logp.
func KLLoss(logp, refLogp, mask Tensor, normalizer float64, kind string) Tensor {
	const op = "KLLoss"
	code := slices.Index(klKinds, kind)
	if code < 0 {
		fail(op, fmt.Sprintf("unknown estimator %q; there are %q", kind, klKinds), logp)
	}
	var out C.om_tensor
	check(op, C.om_kl_loss(logp.in(op), refLogp.in(op), mask.in(op), C.double(normalizer), C.int64_t(code), &out), logp, refLogp, mask)
	return logp.out(out)
}
