package advantage

// Group-relative advantages:
//
//	A_i = (s_i - mean_G s) / (std_G s + 1e-6),   on every sampled token of row i
//
// with s_i the sum of row i's token rewards, G the rows of its uid and std the
// unbiased standard deviation. Source: Shao et al., DeepSeekMath,
// arXiv:2402.03300, section 4.1.2; without the division it is Dr. GRPO,
// arXiv:2503.20783.
//
// grpo_vectorized is an alias, as in verl since 0.8; earlier versions of verl
// floored its variance at 1e-6. Scores that differ only by rounding count as
// equal (rounding.go).
//
// Differs from the paper in: the 1e-6 in the denominator, and the advantage of a
// group of one row, which is its score (mean 0, std 1), both as in verl.

import (
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

func init() {
	Estimators.Add(registry.Entry{Name: "grpo", Doc: "score minus the mean of the group", Aliases: []string{"grpo_vectorized"}, Params: []registry.Param{normByStd.Param}}, Estimator{Estimate: grpo, Grouped: true})
}

func grpo(rows []data.Row, o Options) error {
	byGroup(rows, func(scores []float64, _ []int) []float64 { return centered(scores, normByStd.In(o.Params)) })
	return nil
}
