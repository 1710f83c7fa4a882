package advantage

import (
	"math"

	"github.com/openmanus/openmanus/data"
)

// epsilon keeps the division finite if all scores of a group are equal.
const epsilon = 1e-6

// Groups returns the row indices of each uid, in the order in which the uids
// first occur.
func Groups(rows []data.Row) [][]int {
	at := map[string]int{}
	var groups [][]int
	for i := range rows {
		g, seen := at[rows[i].UID]
		if !seen {
			g = len(groups)
			at[rows[i].UID] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// meanStd returns the mean and the unbiased standard deviation of a group's values, or
// 0 and 1 for a group of one, as in verl.
func meanStd(values []float64) (mean, std float64) {
	if len(values) == 1 {
		return 0, 1
	}
	for _, x := range values {
		mean += x
	}
	mean /= float64(len(values))
	for _, x := range values {
		std += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(std / float64(len(values)-1))
}

// centered returns a group's values minus their mean and, with byStd, divided by their
// standard deviation.
func centered(values []float64, byStd bool) []float64 {
	mean, std := meanStd(values)
	out := make([]float64, len(values))
	for k, x := range values {
		out[k] = x - mean
		if byStd {
			out[k] /= std + epsilon
		}
	}
	return out
}

// scaled returns the values times a factor.
func scaled(values []float64, by float64) []float64 {
	for k := range values {
		values[k] *= by
	}
	return values
}

// byGroup sets one advantage, which is also the return, on the sampled tokens of
// every row. f returns the advantages of a group's members from their scores.
func byGroup(rows []data.Row, f func(scores []float64, members []int) []float64) {
	for _, members := range Groups(rows) {
		for k, a := range f(scores(rows, members), members) {
			setAll(&rows[members[k]], a)
		}
	}
}

// setAll sets the advantage and the return of every sampled token of a row to the value a
// and those of other tokens to 0.
func setAll(r *data.Row, a float64) {
	r.Advantages = make([]float32, len(r.Mask))
	for t, m := range r.Mask {
		if m == 1 {
			r.Advantages[t] = float32(a)
		}
	}
	r.Returns = r.Advantages
}
