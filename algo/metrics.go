package algo

import (
	"math"

	"github.com/openmanus/openmanus/data"
)

// BatchMetrics are the statistics of spec 2.7 over the rows of an update,
// taken over the loss mask: scores and rewards by row, advantages by token.
// Lengths and outcomes are those of the episodes (rollout.Metrics).
func BatchMetrics(rows []data.Row) map[string]float64 {
	m := map[string]float64{}
	var scores, rewards, advantages []float64
	sampled, all := 0, 0
	for i := range rows {
		r := &rows[i]
		scores = append(scores, r.Score)
		rewards = append(rewards, rowScore(r))
		sampled += r.SampledTokens()
		all += len(r.Tokens)
		for t, a := range r.Advantages {
			if r.Mask[t] == 1 {
				advantages = append(advantages, float64(a))
			}
		}
	}
	spreadOf(m, "critic/score", scores)
	spreadOf(m, "critic/rewards", rewards)
	spreadOf(m, "critic/advantages", advantages)
	m["state_tokens/total"] = float64(sampled)
	if all > 0 {
		m["state_tokens/coverage"] = float64(sampled) / float64(all)
	}
	return m
}

// spreadOf writes the mean, largest and smallest of xs under prefix; nothing
// where there are none.
func spreadOf(m map[string]float64, prefix string, xs []float64) {
	if len(xs) == 0 {
		return
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, x := range xs {
		lo, hi = math.Min(lo, x), math.Max(hi, x)
	}
	m[prefix+"/mean"] = sum(xs) / float64(len(xs))
	m[prefix+"/max"] = hi
	m[prefix+"/min"] = lo
}

func sum(xs []float64) float64 {
	s := 0.0
	for _, x := range xs {
		s += x
	}
	return s
}

// LogProbGap compares the log-probs recorded at sampling with those of the
// training forward pass, over sampled tokens: how far the two computations of
// the same weights are apart (design: rollout/logprob_gap_*).
type LogProbGap struct {
	Mean, Max, K3 float64
}

// newLogProbGap computes the gap; got holds the training pass's log-probs.
func newLogProbGap(rows []data.Row, got func(*data.Row) []float32) LogProbGap {
	var g LogProbGap
	n := 0
	for i := range rows {
		r := &rows[i]
		lp := got(r)
		for t := 1; t < len(r.Tokens); t++ {
			if r.Mask[t] != 1 {
				continue
			}
			x := float64(r.RolloutLogProbs[t]) - float64(lp[t])
			d := math.Abs(x)
			g.Mean += d
			g.Max = math.Max(g.Max, d)
			g.K3 += KLEstimate("k3", x)
			n++
		}
	}
	if n > 0 {
		g.Mean /= float64(n)
		g.K3 /= float64(n)
	}
	return g
}

func (g LogProbGap) metrics(m map[string]float64) {
	m["rollout/logprob_gap_mean"] = g.Mean
	m["rollout/logprob_gap_max"] = g.Max
	m["rollout/logprob_gap_k3"] = g.K3
}
