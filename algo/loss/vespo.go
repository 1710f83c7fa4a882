package loss

// VESPO: instead of a clip, a smooth function of the importance weight of the whole
// sequence, which vanishes for small and for large weights.
//
//	W = exp(clamp(Σ_t x_t + Σ_t log w_t, log 1e-8, 20)),   x_t clamped to ±20
//	φ = W^k exp(λ (1 - W));   ℓ = -sg(φ) A log π
//
// with separate k and λ for A ≥ 0 and A < 0; φ(1) = 1. w_t are the token weights of
// a rollout correction, which are part of W. Source: VESPO, arXiv:2602.10693, and
// TRL's loss_type vespo, which averages the loss over tokens.

import (
	"math"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

// leastWeight is the lower bound of a weight before its logarithm.
const leastWeight = 1e-8

var (
	vespoKPos      = registry.NewParam("vespo_k_pos", 2.0, "power of the sequence's ratio for advantages >= 0; larger: small ratios count less", registry.AtLeast(0))
	vespoLambdaPos = registry.NewParam("vespo_lambda_pos", 3.0, "decay with the ratio for advantages >= 0; larger: large ratios count less", registry.Above(0))
	vespoKNeg      = registry.NewParam("vespo_k_neg", 3.0, "power of the sequence's ratio for negative advantages", registry.AtLeast(0))
	vespoLambdaNeg = registry.NewParam("vespo_lambda_neg", 2.0, "decay with the ratio for negative advantages", registry.Above(0))
)

func init() {
	Policies.Add(registry.Entry{
		Name: "vespo", Doc: "smooth importance weight of the whole sequence",
		Params: []registry.Param{vespoKPos.Param, vespoLambdaPos.Param, vespoKNeg.Param, vespoLambdaNeg.Param},
	}, Policy{Loss: vespo})
}

func vespo(s *torch.Scope, b Batch, o Options) (torch.Tensor, Sums) {
	x := b.logRatio().Detach()
	logW := x
	if !b.Weights.None() {
		logW = logW.Add(b.Weights.Clamp(leastWeight, math.Exp(maxLogRatio)).Log())
	}
	logW = b.rowSums(s, logW).Clamp(math.Log(leastWeight), maxLogRatio)
	w := logW.Exp()
	phi := func(k, lambda registry.Typed[float64]) torch.Tensor {
		return logW.MulScalar(k.In(o.Params)).Sub(w.AddScalar(-1).MulScalar(lambda.In(o.Params))).Exp()
	}
	weight := torch.Where(b.Adv.GeScalar(0), phi(vespoKPos, vespoLambdaPos), phi(vespoKNeg, vespoLambdaNeg))
	return weight.Mul(b.Adv).Mul(b.LogP).Neg(), Sums{PPOKL: klSum(x)}
}
