package advantage

// REINFORCE: the discounted sum of the following rewards.
//
//	g_t = r_t + γ g_{t'},   t' the next sampled token;   A = g
//
// Source: Williams, "Simple statistical gradient-following algorithms for
// connectionist reinforcement learning", 1992.
//
// Returns pass through observation tokens unchanged: these are not actions of the
// policy, add no discount and do not end an episode.

import (
	"slices"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

func init() {
	Estimators.Add(registry.Entry{Name: "reinforce", Doc: "discounted sum of the rewards that follow", Params: []registry.Param{gamma.Param}}, Estimator{Estimate: reinforce})
}

func reinforce(rows []data.Row, o Options) error {
	for i := range rows {
		rows[i].Returns = returns(&rows[i], gamma.In(o.Params))
		rows[i].Advantages = slices.Clone(rows[i].Returns)
	}
	return nil
}

// returns computes the discounted sum of a row's rewards from each sampled token
// on. Other tokens add no discount and have the value 0.
func returns(r *data.Row, gamma float64) []float32 {
	out := make([]float32, len(r.Mask))
	g := 0.0
	for t := len(r.Mask) - 1; t >= 0; t-- {
		if r.Mask[t] == 1 {
			g = float64(r.Rewards[t]) + gamma*g
			out[t] = float32(g)
		}
	}
	return out
}
