package algo

// Group-relative advantages:
//
//	A_i = (s_i - mean_G s) / (std_G s + 1e-6),   on every sampled token of row i
//
// with s_i the sum of row i's token rewards, G the rows of its uid and std the
// unbiased standard deviation. Source: Shao et al., DeepSeekMath,
// arXiv:2402.03300, section 4.1.2; without the division it is Dr. GRPO,
// arXiv:2503.20783.
//
// Differs from the paper in: the 1e-6 under the fraction, and a group of one
// row, whose advantage is its score (mean 0, std 1), both as in verl.

import (
	"fmt"
	"math"

	"github.com/openmanus/openmanus/data"
)

func init() { Estimators.Register("grpo", GRPO) }

// grpoEpsilon keeps the division finite when all scores of a group are equal.
const grpoEpsilon = 1e-6

// GRPO is the group-relative estimator.
func GRPO(rows []data.Row, o EstimatorOptions) error {
	scores := make([]float64, len(rows))
	groups := map[string][]int{}
	for i := range rows {
		if len(rows[i].Rewards) != len(rows[i].Mask) {
			return fmt.Errorf("grpo: row %d (%s) has %d rewards for %d tokens", i, rows[i].UID, len(rows[i].Rewards), len(rows[i].Mask))
		}
		scores[i] = rowScore(&rows[i])
		groups[rows[i].UID] = append(groups[rows[i].UID], i)
	}
	for _, members := range groups {
		mean, std := meanStd(scores, members)
		for _, i := range members {
			a := scores[i] - mean
			if o.NormByStd {
				a /= std + grpoEpsilon
			}
			rows[i].Advantages = broadcast(a, rows[i].Mask)
			rows[i].Returns = rows[i].Advantages
		}
	}
	return nil
}

// meanStd is the mean and the unbiased standard deviation of a group's scores;
// 0 and 1 for a group of one.
func meanStd(scores []float64, members []int) (mean, std float64) {
	if len(members) == 1 {
		return 0, 1
	}
	for _, i := range members {
		mean += scores[i]
	}
	mean /= float64(len(members))
	for _, i := range members {
		std += (scores[i] - mean) * (scores[i] - mean)
	}
	return mean, math.Sqrt(std / float64(len(members)-1))
}
