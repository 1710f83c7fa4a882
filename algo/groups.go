package algo

import (
	"github.com/openmanus/openmanus/data"
)

// GroupStats describe the spread of scores inside groups of one uid.
type GroupStats struct {
	Groups     int
	ZeroSpread int     // groups whose scores are all equal: they teach a group estimator nothing
	Single     int     // groups with one row left
	MeanStd    float64 // mean over groups of the unbiased standard deviation
}

// DropZeroSpread returns the rows whose group has at least two rows and at
// least two different scores, in their order, and what it saw. A group without
// spread has advantage 0 on every token: under a token mean it would only
// dilute the others (spec 5.11).
func DropZeroSpread(rows []data.Row) ([]data.Row, GroupStats) {
	groups := map[string][]int{}
	var order []string
	scores := make([]float64, len(rows))
	for i := range rows {
		scores[i] = rowScore(&rows[i])
		if _, seen := groups[rows[i].UID]; !seen {
			order = append(order, rows[i].UID)
		}
		groups[rows[i].UID] = append(groups[rows[i].UID], i)
	}
	stats := GroupStats{Groups: len(order)}
	keep := make([]bool, len(rows))
	for _, uid := range order {
		members := groups[uid]
		if len(members) == 1 {
			stats.Single++
			continue
		}
		_, std := meanStd(scores, members)
		stats.MeanStd += std / float64(len(order))
		if !spread(scores, members) {
			stats.ZeroSpread++
			continue
		}
		for _, i := range members {
			keep[i] = true
		}
	}
	var kept []data.Row
	for i := range rows {
		if keep[i] {
			kept = append(kept, rows[i])
		}
	}
	return kept, stats
}

func spread(scores []float64, members []int) bool {
	for _, i := range members[1:] {
		if scores[i] != scores[members[0]] {
			return true
		}
	}
	return false
}
