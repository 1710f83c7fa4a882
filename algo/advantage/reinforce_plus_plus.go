package advantage

// REINFORCE++: returns, whitened over the sampled tokens of the batch.
//
//	g_t = r_t + γ g_{t'};   A = whiten(g)
//
// and the variant with a baseline, in which every token has the row's score minus
// the mean of its group:
//
//	A = whiten(s_i - mean_G s)
//
// Source: Hu, REINFORCE++, arXiv:2501.03262.
//
// Returns pass through observation tokens, as in verl since 0.9. Earlier versions
// of verl reset the return to 0 at every token outside the mask, so that a reward
// at the end of an episode did not reach the turns before the last (spec 5.4).

import (
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

func init() {
	Estimators.Add(registry.Entry{Name: "reinforce_plus_plus", Doc: "reinforce, whitened over the batch", Params: []registry.Param{gamma.Param}}, Estimator{Estimate: reinforcePlusPlus})
	Estimators.Add(registry.Entry{Name: "reinforce_plus_plus_baseline", Doc: "score minus the mean of the group, whitened over the batch"}, Estimator{InGroup: true, Estimate: reinforcePlusPlusBaseline})
}

func reinforcePlusPlus(rows []data.Row, o Options) error {
	if err := reinforce(rows, o); err != nil {
		return err
	}
	whiten(rows)
	return nil
}

func reinforcePlusPlusBaseline(rows []data.Row, _ Options) error {
	byGroup(rows, func(scores []float64, _ []int) []float64 { return centered(scores, false) })
	whiten(rows)
	return nil
}
