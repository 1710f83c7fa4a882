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

	"github.com/openmanus/openmanus/data"
)

const roundingShare = 1. / (1 << 22)

// Settle makes the members' values equal if they differ only by the rounding of
// their rows' token rewards.
func Settle(values []float64, members []int, rows []data.Row) {
	noise := 0.0
	for _, i := range members {
		noise = math.Max(noise, rounding(&rows[i]))
	}
	settle(values, members, noise)
}

// rounding bounds the difference that rounding can cause between two sums of
// rewards as large as the row's.
func rounding(r *data.Row) float64 {
	sum := 0.0
	for _, x := range r.Rewards {
		sum += math.Abs(float64(x))
	}
	return sum * roundingShare
}

// settle makes the members' values equal if they lie within noise of each other.
func settle(values []float64, members []int, noise float64) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, i := range members {
		low, high = math.Min(low, values[i]), math.Max(high, values[i])
	}
	if high-low > noise {
		return
	}
	for _, i := range members {
		values[i] = low
	}
}
