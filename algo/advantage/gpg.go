package advantage

// Group policy gradient:
//
//	A_i = α (s_i - mean_G s),   α = B / max(1, number of rows with s ≠ 0)
//
// with B the number of rows of the batch. Rows without an advantage stay in the
// loss's mean, and α compensates for them. Source: Chu et al., GPG,
// arXiv:2504.02546, with the normaliser f_norm = 1, as in verl. A group of one
// row has mean 0. The matching policy loss is gpg.

import (
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

func init() {
	Estimators.Add(registry.Entry{Name: "gpg", Doc: "group policy gradient"}, Estimator{Estimate: gpg, Grouped: true, KeepZeroSpread: true})
}

func gpg(rows []data.Row, _ Options) error {
	nonzero := 0
	for _, members := range Groups(rows) {
		for _, s := range scores(rows, members) {
			if s != 0 {
				nonzero++
			}
		}
	}
	alpha := float64(len(rows)) / float64(max(1, nonzero))
	byGroup(rows, func(scores []float64, _ []int) []float64 { return scaled(centered(scores, false), alpha) })
	return nil
}
