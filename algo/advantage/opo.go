package advantage

// On-policy optimal baseline: the length-weighted mean of the group's scores. It
// minimises the variance of the gradient if the squared gradient norm grows
// linearly with the number of tokens.
//
//	A_i = s_i - Σ_G len_j s_j / Σ_G len_j
//
// with len the number of sampled tokens. Source: Hao et al., "On-Policy RL with
// Optimal Reward Baseline", arXiv:2505.23585. A group of one row keeps its
// score, as in verl.

import (
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

func init() {
	Estimators.Add(registry.Entry{Name: "opo", Doc: "score minus the length-weighted mean of the group"}, Estimator{Estimate: opo, Grouped: true})
}

func opo(rows []data.Row, _ Options) error {
	byGroup(rows, func(scores []float64, members []int) []float64 {
		weighted, tokens := 0.0, 0.0
		for k, i := range members {
			n := float64(rows[i].SampledTokens())
			weighted += n * scores[k]
			tokens += n
		}
		if len(members) > 1 && tokens > 0 {
			for k := range scores {
				scores[k] -= weighted / tokens
			}
		}
		return scores
	})
	return nil
}
