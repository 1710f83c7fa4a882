package loss

// Clip-Cov: PPO's clipped loss, without the gradient of a few tokens of high
// covariance.
//
//	ℓ_t = max(-A ρ, -A clip(ρ)) · 0 for the tokens chosen, · 1 for others
//
// clip_cov_ratio of all tokens, at least one, are chosen at random among the
// unclipped tokens with cov_t between clip_cov_lb and clip_cov_ub. Source:
// arXiv:2505.22617, section 4.1. pg_clipfrac is the share of chosen tokens.
//
// Differs from verl in: the random numbers depend on the run's seed and the step.

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

var (
	clipCovRatio = registry.NewParam("clip_cov_ratio", 0.0002, "share of the tokens whose gradient is removed", registry.AboveTo(0, 1))
	clipCovLow   = registry.NewParam("clip_cov_lb", 1.0, "lower bound of the covariance of these tokens", registry.Any)
	clipCovHigh  = registry.NewParam("clip_cov_ub", 5.0, "upper bound of the covariance of these tokens", registry.Any)
)

func checkClipCov(v registry.Values) (key, problem string) {
	if low, high := clipCovLow.In(v), clipCovHigh.In(v); low >= high {
		return clipCovLow.Key, fmt.Sprintf("%v is not below clip_cov_ub %v", low, high)
	}
	return "", ""
}

func init() {
	Policies.Add(registry.Entry{Name: "clip_cov", Doc: "PPO's clipped loss without the gradient of some tokens of high covariance", Params: append([]registry.Param{clipCovRatio.Param, clipCovLow.Param, clipCovHigh.Param}, clipBounds...), Check: checkClipCov}, Policy{Loss: clipCov, Choose: chooseClipCov})
}

func clipCov(s *torch.Scope, b Batch, o Options) (torch.Tensor, Sums) {
	x := b.logRatio()
	l, _ := clipped(x.Exp(), b.Adv, o)
	l = l.MaskedFill(s.Bools(b.Chosen, len(b.Chosen)), 0)
	return b.weigh(l), Sums{ClipFrac: s.Full(float64(trues(b.Chosen)), torch.Float64), PPOKL: klSum(x)}
}

func chooseClipCov(tokens []Token, o Options, seed uint64) []bool {
	cov := covariances(tokens)
	var eligible []int
	for i, t := range tokens {
		ratio := math.Exp(max(-maxLogRatio, min(maxLogRatio, t.LogP-t.Old)))
		outside := t.Adv > 0 && ratio > 1+clipHigh.In(o.Params) || t.Adv < 0 && ratio < 1-clipLow.In(o.Params)
		if !outside && cov[i] > clipCovLow.In(o.Params) && cov[i] < clipCovHigh.In(o.Params) {
			eligible = append(eligible, i)
		}
	}
	chosen := make([]bool, len(tokens))
	r := rand.NewPCG(seed, 0x636c6970636f76) // the constant makes these draws differ from other draws with the same seed
	for k := range min(share(clipCovRatio.In(o.Params), len(tokens)), len(eligible)) {
		j, _ := bits.Mul64(r.Uint64(), uint64(len(eligible)-k))
		at := k + int(j)
		eligible[k], eligible[at] = eligible[at], eligible[k]
		chosen[eligible[k]] = true
	}
	return chosen
}

func trues(b []bool) int {
	n := 0
	for _, v := range b {
		if v {
			n++
		}
	}
	return n
}
