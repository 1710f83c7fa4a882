package advantage

// Group policy gradient:
//
//	A_i = α (s_i - mean_G s),   α = B / max(1, number of rows with s ≠ 0)
//
// with B the rows of the batch: the fewer rows say anything, the more each
// counts. α makes up for rows of no advantage in the loss's mean, so they stay
// there. Source: Chu et al., GPG, arXiv:2504.02546, with its normaliser f_norm
// at 1, as in verl. A group of one row has mean 0. It goes with the policy loss
// of the same name.

import (
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

func init() {
	Estimators.Add(registry.Entry{Name: "gpg", Doc: "group policy gradient"}, Estimator{Estimate: gpg, Grouped: true, Whole: true})
}

func gpg(rows []data.Row, _ Options) error {
	nonzero := 0
	for _, s := range scores(rows) {
		if s != 0 {
			nonzero++
		}
	}
	alpha := float64(len(rows)) / float64(max(1, nonzero))
	byGroup(rows, func(scores []float64, members []int, set func(int, float64)) {
		mean, _ := MeanStd(scores, members)
		for _, i := range members {
			set(i, alpha*(scores[i]-mean))
		}
	})
	return nil
}
