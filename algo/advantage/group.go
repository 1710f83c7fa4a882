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

// MeanStd returns the mean and the unbiased standard deviation of the members'
// scores, or 0 and 1 for a group of one, as in verl.
func MeanStd(scores []float64, members []int) (mean, std float64) {
	if len(members) == 1 {
		return 0, 1
	}
	mean = meanOf(scores, members)
	for _, i := range members {
		std += (scores[i] - mean) * (scores[i] - mean)
	}
	return mean, math.Sqrt(std / float64(len(members)-1))
}

func meanOf(scores []float64, members []int) float64 {
	mean := 0.0
	for _, i := range members {
		mean += scores[i]
	}
	return mean / float64(len(members))
}

// byGroup sets one advantage, which is also the return, on the sampled tokens of
// every row. f computes it from the scores of the row's group.
func byGroup(rows []data.Row, f func(scores []float64, members []int, set func(i int, a float64))) {
	s := scores(rows)
	for _, members := range Groups(rows) {
		f(s, members, func(i int, a float64) {
			rows[i].Advantages = broadcast(a, rows[i].Mask)
			rows[i].Returns = rows[i].Advantages
		})
	}
}
