package learner

import (
	"math"

	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// LogProbGap is the difference between the log-probs recorded while sampling and the
// log-probs of the training forward pass, over sampled tokens. If both use the
// same weights, it is the numerical difference of two computations (rollout/logprob_gap_*).
type LogProbGap struct {
	Mean, Max, K3 float64
}

// NewLogProbGap compares the rows' RolloutLogProbs with their OldLogProbs. It ignores rows without
// OldLogProbs.
func NewLogProbGap(rows []data.Row) LogProbGap {
	var g LogProbGap
	n := 0
	for i := range rows {
		r := &rows[i]
		if len(r.OldLogProbs) == 0 { // the optimiser step of this row was skipped
			continue
		}
		for t := 1; t < len(r.Tokens); t++ {
			if r.Mask[t] != 1 {
				continue
			}
			x := float64(r.RolloutLogProbs[t]) - float64(r.OldLogProbs[t])
			d := math.Abs(x)
			g.Mean += d
			g.Max = math.Max(g.Max, d)
			g.K3 += kl.K3(x)
			n++
		}
	}
	if n > 0 {
		g.Mean /= float64(n)
		g.K3 /= float64(n)
	}
	return g
}

// AddTo writes the gap to m.
func (g LogProbGap) AddTo(m map[string]float64) {
	m[track.LogProbGap+"_mean"] = g.Mean
	m[track.LogProbGap+"_max"] = g.Max
	m[track.LogProbGap+"_k3"] = g.K3
}
