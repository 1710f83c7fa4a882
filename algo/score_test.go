package algo

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data"
)

// scoredEpisode has three turns of two tokens: a valid action, one that could
// not be read, and a reply that the context cut off. The rewards are running
// scores.
func scoredEpisode() *data.Episode {
	return &data.Episode{
		Task: data.Task{ID: "sciworld_1", Env: "sciworld", Index: 1}, UID: "a", Outcome: data.ContextLimit, Cumulative: true, FirstObservation: "start",
		Reward: 60, Tokens: make([]int32, 8), Mask: []uint8{0, 1, 1, 1, 1, 0, 1, 1}, LogProbs: make([]float32, 8),
		Turns: []data.Turn{
			{Start: 1, End: 3, Parsed: true, Reward: 60},
			{Start: 3, End: 5, Refused: true},
			{Start: 6, End: 8, Stop: "context", Unjudged: true},
		},
	}
}

// What an episode is worth is what the environment said of the turns that it
// judged, and the penalty of an invalid action is off the episode, or off its
// turn where the estimator looks at turns.
func TestScoreOfEpisodes(t *testing.T) {
	for _, c := range []struct {
		estimator, allocation string
		want                  []float32
	}{
		{"grpo", "last_token", []float32{0, 0, 0, 0, 0, 0, 0, 57}},
		{"grpo", "per_turn", []float32{0, 0, 60, 0, 0, 0, 0, -3}},
		{"gigpo", "last_token", []float32{0, 0, 0, 0, -2, 0, 0, 59}},
		{"gigpo", "per_turn", []float32{0, 0, 60, 0, -2, 0, 0, -1}},
	} {
		tr := &Trainer{o: Options{
			Signal: "last", Allocation: c.allocation, Estimator: c.estimator, InvalidActionPenalty: 2, TurnPenalty: .5,
		}}
		found := scored{}
		rows, err := tr.score(t.Context(), []*data.Episode{scoredEpisode()}, &found)
		must(t, err)
		if d := cmp.Diff(c.want, rows[0].Rewards); d != "" {
			t.Errorf("%s, %s (-want +got):\n%s", c.estimator, c.allocation, d)
		}
		if rows[0].Score != 60 || rows[0].EnvReward != 60 || rows[0].FirstObservation != "start" || found.turns != 2 || found.valid != 1 {
			t.Errorf("%s: score %g, first observation %q, %d of %d turns valid", c.estimator, rows[0].Score, rows[0].FirstObservation, found.valid, found.turns)
		}
	}
}
