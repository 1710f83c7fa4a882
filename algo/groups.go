package algo

import (
	"slices"

	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/data"
)

// GroupMetrics are the values of a row that can decide whether its group has spread
// (verl's algorithm.filter_groups.metric):
//
//	seq_final_reward  sum of the token rewards, penalties included
//	score             the score of the environment or the score functions
//	env_reward        the reward of the environment
//
// With a penalty for turns, the episodes of a group in which all succeed differ only by
// their number of turns. With seq_final_reward the step still learns from such a group,
// and the policy may unlearn a rare state that only the slower episodes visit. With score
// the group is left out. If the score contains more than the outcome, such as DAPO's
// penalty for overlong episodes, env_reward contains only the outcome; DAPO filters by
// accuracy (arXiv:2503.14476, section 3.2).
var GroupMetrics = map[string]func(*data.Row) float64{
	"seq_final_reward": (*data.Row).RewardSum,
	"score":            func(r *data.Row) float64 { return r.Score },
	"env_reward":       func(r *data.Row) float64 { return r.EnvReward },
}

// GroupStats counts the groups that have no advantages.
type GroupStats struct {
	ZeroSpread int // number of groups with equal values
	Single     int // number of groups with only one episode left
}

// DropZeroSpread returns, in order, the rows of groups with at least two episodes
// and two different values of a metric of GroupMetrics. Values that differ only
// by the rounding of token rewards count as equal. A group without spread has
// advantage 0 on every token, which would dilute a token mean (spec 5.11).
func DropZeroSpread(rows []data.Row, metric func(*data.Row) float64) (kept []data.Row, stats GroupStats, err error) {
	spans, err := data.EpisodeSpans(rows)
	if err != nil {
		return nil, stats, err
	}
	keep := make([]bool, len(spans))
	err = data.ByEpisode(rows, func(episodes []data.Row) error {
		for _, members := range advantage.Groups(episodes) {
			values := advantage.Settled(episodes, members, metric)
			switch {
			case len(members) == 1:
				stats.Single++
			case slices.Min(values) == slices.Max(values):
				stats.ZeroSpread++
			default:
				for _, i := range members {
					keep[i] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, stats, err
	}
	for i, s := range spans {
		if keep[i] {
			kept = append(kept, rows[s[0]:s[1]]...)
		}
	}
	return kept, stats, nil
}

// DropSingles returns, in order, the rows of groups with at least two episodes, and the
// number of groups with only one. A single episode has no baseline: its score would
// become its advantage.
func DropSingles(rows []data.Row) (kept []data.Row, singles int) {
	episodes := map[string]int{}
	for i := range rows {
		if rows[i].Context == 0 {
			episodes[rows[i].UID]++
		}
	}
	for _, n := range episodes {
		if n == 1 {
			singles++
		}
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r data.Row) bool { return episodes[r.UID] == 1 }), singles
}
