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
// grpo_vectorized floors the variance at 1e-6 before the root, so that a group
// whose scores differ by rounding alone is not blown up (verl).
//
// Differs from the paper in: the 1e-6 under the fraction, and a group of one
// row, whose advantage is its score (mean 0, std 1), both as in verl.

import (
	"math"

	"github.com/openmanus/openmanus/data"
)

func init() {
	Estimators.Register("grpo", Estimator{Estimate: grpo(0), Grouped: true})
	Estimators.Register("grpo_vectorized", Estimator{Estimate: grpo(1e-6), Grouped: true})
}

func grpo(leastVariance float64) func(rows []data.Row, o Options) error {
	return func(rows []data.Row, o Options) error {
		byGroup(rows, func(scores []float64, members []int, set func(int, float64)) {
			mean, std := MeanStd(scores, members)
			std = math.Max(std, math.Sqrt(leastVariance))
			for _, i := range members {
				a := scores[i] - mean
				if o.NormByStd {
					a /= std + epsilon
				}
				set(i, a)
			}
		})
		return nil
	}
}
