package algo

import (
	"slices"

	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/data"
)

// GroupMetrics are the numbers of a row whose spread can decide whether its
// group is learned from (verl's algorithm.filter_groups.metric):
//
//	seq_final_reward  what the row is paid, penalties included
//	score             what the environment or the score functions gave
//	env_reward        what the environment gave, whatever the score is made of
//
// With a penalty for turns, a group that succeeds everywhere differs by its
// turns alone. By seq_final_reward it goes on learning from them, long after
// there is nothing left to solve, and may unlearn a rare state that only its
// slower episodes pass through; by score it is done. Where the score has other
// parts than the outcome, as DAPO's punishment of overlong episodes, env_reward is
// the outcome alone: DAPO filters by accuracy (arXiv:2503.14476, section 3.2).
var GroupMetrics = map[string]func(*data.Row) float64{
	"seq_final_reward": (*data.Row).RewardSum,
	"score":            func(r *data.Row) float64 { return r.Score },
	"env_reward":       func(r *data.Row) float64 { return r.EnvReward },
}

// GroupStats describe the spread of scores inside groups of one uid.
type GroupStats struct {
	Groups     int
	ZeroSpread int     // groups whose values are all equal: they teach a group estimator nothing
	Single     int     // groups with one episode left
	MeanStd    float64 // mean over groups of the unbiased standard deviation
}

// DropZeroSpread returns the rows whose group has at least two episodes and at
// least two different values of metric, one of GroupMetrics, in their order,
// and what it saw. Values that differ by the rounding of token rewards alone
// are equal. A group without spread has advantage 0 on every token:
// under a token mean it would only dilute the others (spec 5.11).
func DropZeroSpread(rows []data.Row, metric func(*data.Row) float64) ([]data.Row, GroupStats, error) {
	spans, err := data.EpisodeSpans(rows)
	if err != nil {
		return nil, GroupStats{}, err
	}
	var groups [][]int // episodes
	scores := make([]float64, len(spans))
	err = data.ByEpisode(rows, func(episodes []data.Row) error {
		groups = advantage.Groups(episodes)
		for i := range episodes {
			scores[i] = metric(&episodes[i])
		}
		for _, members := range groups {
			advantage.Settle(scores, members, episodes)
		}
		return nil
	})
	if err != nil {
		return nil, GroupStats{}, err
	}
	stats := GroupStats{Groups: len(groups)}
	keep := make([]bool, len(spans))
	for _, members := range groups {
		if len(members) == 1 {
			stats.Single++
			continue
		}
		_, std := advantage.MeanStd(scores, members)
		stats.MeanStd += std / float64(len(groups))
		if !spread(scores, members) {
			stats.ZeroSpread++
			continue
		}
		for _, i := range members {
			keep[i] = true
		}
	}
	var kept []data.Row
	for i, s := range spans {
		if keep[i] {
			kept = append(kept, rows[s[0]:s[1]]...)
		}
	}
	return kept, stats, nil
}

// DropSingles returns the rows whose group has at least two episodes, in their
// order, and how many groups have one alone: there is nothing to compare it
// with, and its score itself would be taken for an advantage.
func DropSingles(rows []data.Row) (kept []data.Row, singles int, err error) {
	spans, err := data.EpisodeSpans(rows)
	if err != nil {
		return nil, 0, err
	}
	episodes := map[string]int{}
	for _, s := range spans {
		episodes[rows[s[0]].UID]++
	}
	for _, n := range episodes {
		if n == 1 {
			singles++
		}
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r data.Row) bool { return episodes[r.UID] == 1 }), singles, nil
}

func spread(scores []float64, members []int) bool {
	for _, i := range members[1:] {
		if scores[i] != scores[members[0]] {
			return true
		}
	}
	return false
}
