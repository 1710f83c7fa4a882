package advantage

// REINFORCE leave-one-out: the baseline of a row is the mean of the other rows.
//
//	A_i = s_i - mean_{j≠i} s_j = n/(n-1) · (s_i - mean_G s)
//
// Source: Ahmadian et al., "Back to Basics", arXiv:2402.14740. A group of one
// row keeps its score, as in verl.

import (
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

func init() {
	Estimators.Add(registry.Entry{Name: "rloo", Doc: "score minus the mean of the other episodes of the group"}, Estimator{Estimate: rloo, Grouped: true})
}

func rloo(rows []data.Row, _ Options) error {
	byGroup(rows, func(scores []float64, _ []int) []float64 {
		n := float64(len(scores))
		return scaled(centered(scores, false), n/max(1, n-1))
	})
	return nil
}
