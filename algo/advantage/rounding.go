package advantage

// Token rewards are float32, so that scores which are equal need not be equal
// sums: a score of 1 over three tokens is 1.0000000298. Rounding to 24 bits
// keeps every sum within
//
//	2^-24 Σ_t |r_t|
//
// of what was paid. Scores of a group that are not further apart than that,
// with room for a second rounding, are one score: else a group estimator would
// divide rounding by the spread of rounding, and dynamic sampling would take a
// group that has nothing to teach for one that has.
//
// verl has no such rule: its rewards lie on one token of a row.

import (
	"math"

	"github.com/openmanus/openmanus/data"
)

const roundingShare = 1. / (1 << 22)

// Settle makes the members' values, which are made of their rows' token
// rewards, equal where they differ by rounding alone.
func Settle(values []float64, members []int, rows []data.Row) {
	noise := 0.0
	for _, i := range members {
		noise = math.Max(noise, rounding(&rows[i]))
	}
	settle(values, members, noise)
}

// rounding is how far apart two sums of rewards as large as the row's can be
// by rounding alone.
func rounding(r *data.Row) float64 {
	sum := 0.0
	for _, x := range r.Rewards {
		sum += math.Abs(float64(x))
	}
	return sum * roundingShare
}

// settle makes the members' values equal if none is further than noise from
// another.
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
