package loss

// Clip-Cov: PPO's clipped loss, and a few tokens of high covariance send no
// gradient at all.
//
//	ℓ_t = max(-A ρ, -A clip(ρ)) · 0 for the tokens chosen, · 1 for others
//
// chosen: clip_cov_ratio of all tokens, at least one, drawn at random from those
// with cov_t between clip_cov_lb and clip_cov_ub that the clip does not hold
// already. Source: arXiv:2505.22617, section 4.1. pg_clipfrac is the share of
// tokens chosen.
//
// Differs from verl in: the draw is keyed by the run's seed and the step.

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/openmanus/openmanus/torch"
)

func init() { Policies.Register("clip_cov", Policy{Loss: clipCov, Choose: chooseClipCov}) }

func clipCov(s *torch.Scope, b Batch, o Options) (torch.Tensor, Sums) {
	x := b.logRatio()
	l, _ := clipped(x.Exp(), b.Adv, o)
	l = l.MaskedFill(s.Bools(b.Chosen, len(b.Chosen)), 0)
	return b.weigh(l), Sums{ClipFrac: float64(trues(b.Chosen)), PPOKL: klSum(x)}
}

func chooseClipCov(tokens []Token, o Options, seed uint64) []bool {
	cov := covariances(tokens)
	var eligible []int
	for i, t := range tokens {
		ratio := math.Exp(max(-maxLogRatio, min(maxLogRatio, t.LogP-t.Old)))
		held := t.Adv > 0 && ratio > 1+o.ClipHigh || t.Adv < 0 && ratio < 1-o.ClipLow
		if !held && cov[i] > o.ClipCovLow && cov[i] < o.ClipCovHigh {
			eligible = append(eligible, i)
		}
	}
	chosen := make([]bool, len(tokens))
	r := rand.NewPCG(seed, 0x636c6970636f76) // any constant: the stream of this loss
	for k := range min(share(o.ClipCovRatio, len(tokens)), len(eligible)) {
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
