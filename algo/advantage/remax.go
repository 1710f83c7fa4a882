package advantage

// ReMax: the sum of the following rewards minus the score of a greedy episode of
// the same task.
//
//	g_t = Σ_{u≥t} r_u;   A_t = g_t - b
//
// Source: Li et al., ReMax, arXiv:2310.10505. There is no discount. The
// baseline b is Row.Baseline; the caller plays the greedy episode.

import (
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

func init() {
	Estimators.Add(registry.Entry{Name: "remax", Doc: "score minus the score of a greedy episode of the task"}, Estimator{Estimate: remax, Needs: Needs{Baseline: true}})
}

func remax(rows []data.Row, _ Options) error {
	for i := range rows {
		r := &rows[i]
		r.Returns = returns(r, 1)
		r.Advantages = make([]float32, len(r.Mask))
		for t, m := range r.Mask {
			if m == 1 {
				r.Advantages[t] = float32(float64(r.Returns[t]) - *r.Baseline)
			}
		}
	}
	return nil
}
