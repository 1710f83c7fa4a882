package loss

// VESPO: the importance weight of the whole sequence, in a smooth form that
// vanishes for small and for large weights alike, in place of a clip.
//
//	W = exp(clamp(Σ_t x_t + Σ_t log w_t, log 1e-8, 20)),   x_t clamped to ±20
//	φ = W^k exp(λ (1 - W));   ℓ = -sg(φ) A log π
//
// with k and λ of their own for A ≥ 0 and for A < 0; φ(1) = 1. w_t are the
// weights of a rollout correction by token, which are part of W here. Source:
// VESPO, arXiv:2602.10693, and TRL's loss_type vespo, which takes the mean over
// tokens of it.

import (
	"math"

	"github.com/openmanus/openmanus/torch"
)

// leastWeight bounds a weight from below before its logarithm is taken.
const leastWeight = 1e-8

// Gamma are the constants of vespo's φ for one sign of the advantage.
type Gamma struct {
	K      float64 // power: how fast small weights count less
	Lambda float64 // decay: how fast large ones do
}

func init() { Policies.Register("vespo", Policy{Loss: vespo}) }

func vespo(s *torch.Scope, b Batch, o Options) (torch.Tensor, Sums) {
	x := b.logRatio().Detach()
	logW := x
	if !b.Weights.None() {
		logW = logW.Add(b.Weights.Clamp(leastWeight, math.Exp(maxLogRatio)).Log())
	}
	logW = b.rowSums(s, logW).Clamp(math.Log(leastWeight), maxLogRatio)
	w := logW.Exp()
	phi := func(g Gamma) torch.Tensor {
		return logW.MulScalar(g.K).Sub(w.AddScalar(-1).MulScalar(g.Lambda)).Exp()
	}
	weight := torch.Where(b.Adv.GeScalar(0), phi(o.VESPOPos), phi(o.VESPONeg))
	return weight.Mul(b.Adv).Mul(b.LogP).Neg(), Sums{PPOKL: klSum(x)}
}
