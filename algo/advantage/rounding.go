package advantage

// Token rewards are float32, so equal scores may have different sums: a score of
// 1 distributed over three tokens sums to 1.0000000298. Rounding to 24 bits keeps
// every sum within
//
//	2^-24 Σ_t |r_t|
//
// of the score. Scores of a group within this distance, with a margin for a second
// rounding, are treated as equal. Otherwise a group estimator would divide
// rounding errors by their own standard deviation, and dynamic sampling would
// keep a group without any difference.
//
// verl does not need this: its rewards are on one token of a row.

import (
	"math"
	"slices"

	"github.com/openmanus/openmanus/data"
)

const roundingShare = 1. / (1 << 22)

// Settled returns a metric of each member of a group. Values that differ only by the
// rounding of the rows' token rewards are made equal.
func Settled(rows []data.Row, members []int, metric func(*data.Row) float64) []float64 {
	return settled(rows, members, metric, rounding)
}

func settled(rows []data.Row, members []int, metric, rounding func(*data.Row) float64) []float64 {
	values := make([]float64, len(members))
	noise := 0.0
	for k, i := range members {
		values[k] = metric(&rows[i])
		noise = max(noise, rounding(&rows[i]))
	}
	settle(values, noise)
	return values
}

// scores returns the sum of the token rewards of each member of a group.
func scores(rows []data.Row, members []int) []float64 {
	return Settled(rows, members, (*data.Row).RewardSum)
}

// rounding returns a bound on the difference that the rounding of token rewards can
// cause between the reward sums of two rows with this row's score.
func rounding(r *data.Row) float64 {
	sum := 0.0
	for _, x := range r.Rewards {
		sum += math.Abs(float64(x))
	}
	return sum * roundingShare
}

// settle makes the values equal if their range is at most the bound noise.
func settle(values []float64, noise float64) {
	low := slices.Min(values)
	if slices.Max(values)-low > noise {
		return
	}
	for i := range values {
		values[i] = low
	}
}
