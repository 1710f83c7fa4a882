package algo

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/reward"
)

// scoredEpisode has three turns of two tokens: a valid action, an invalid one, and a reply truncated by the context
// limit. The rewards are running scores.
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

// TestScoreOfEpisodes checks that the score of an episode is the environment's reward for the turns
// it evaluated. The penalty of an invalid action is subtracted from the episode's score, or from
// its turn if the estimator uses turn rewards.
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
		tr := &player{core: &core{o: Options{
			Scoring: Scoring{Signal: "last", Allocation: c.allocation, InvalidActionPenalty: 2, TurnPenalty: .5},
			Update:  Update{Estimator: c.estimator},
		}}}
		must(t, tr.lookUp())
		found := scored{}
		rows, err := tr.score(t.Context(), []*data.Episode{scoredEpisode()}, &found)
		must(t, err)
		if d := cmp.Diff(c.want, rows[0].Rewards); d != "" {
			t.Errorf("%s, %s (-want +got):\n%s", c.estimator, c.allocation, d)
		}
		if rows[0].Score != 60 || rows[0].EnvReward != 60 || rows[0].FirstObservation != "start" || found.turns != 2 || found.valid != 1 {
			t.Errorf("%s: score %g, first observation %q, %d of %d turns valid; want 60, start, 1 of 2", c.estimator, rows[0].Score, rows[0].FirstObservation, found.valid, found.turns)
		}
	}
}

// fixedScore gives every sample the same score.
type fixedScore float64

func (f fixedScore) Score(_ context.Context, samples []reward.Sample) ([]reward.Score, error) {
	out := make([]reward.Score, len(samples))
	for i := range out {
		out[i].Value = float64(f)
	}
	return out, nil
}

func (fixedScore) Close() error { return nil }

// turnScore gives every turn its number, from 1.
type turnScore struct{}

func (turnScore) Score(_ context.Context, samples []reward.Sample) ([]reward.Score, error) {
	out := make([]reward.Score, len(samples))
	for i, s := range samples {
		for k := range s.Turns {
			out[i].Turns = append(out[i].Turns, float64(k+1))
			out[i].Value += float64(k + 1)
		}
	}
	return out, nil
}

func (turnScore) Close() error { return nil }

// TestScoresPerTurn checks that the numbers of a score function are the rewards of the turns' last tokens, and not the
// environment's rewards.
func TestScoresPerTurn(t *testing.T) {
	for _, c := range []struct {
		scorer reward.Scorer
		want   []float32
	}{
		{turnScore{}, []float32{0, 0, 10, 0, 20, 0, 0, 27.5}}, // 30 less 2 turns and an invalid action
		{fixedScore(3), []float32{0, 0, 0, 0, 0, 0, 0, 27.5}},
	} {
		tr := &player{core: &core{o: Options{
			Scoring: Scoring{Signal: "last", Allocation: "per_turn", InvalidActionPenalty: 2, TurnPenalty: .25, Scorer: &reward.Composer{
				Components: []reward.Component{{Name: "x", Weight: 10, Scorer: c.scorer}},
			}},
			Update: Update{Estimator: "grpo"},
		}}}
		must(t, tr.lookUp())
		rows, err := tr.score(t.Context(), []*data.Episode{scoredEpisode()}, &scored{})
		must(t, err)
		if d := cmp.Diff(c.want, rows[0].Rewards); d != "" {
			t.Errorf("%T (-want +got):\n%s", c.scorer, d)
		}
	}
}

// TestPartsOfTheReward checks that the parts of a reward are the components of the score, or the
// environment's reward, and the penalties. Their weighted sum is the episode's reward.
func TestPartsOfTheReward(t *testing.T) {
	for _, c := range []struct {
		name   string
		scorer *reward.Composer
		want   []data.RewardPart
	}{
		{"environment's reward", nil, []data.RewardPart{{Weight: 1, Value: 60}, {Weight: .5, Value: -2}, {Weight: 2, Value: -1}}},
		{"components", &reward.Composer{Components: []reward.Component{
			{Name: "z", Weight: 3, Scorer: fixedScore(7)}, {Name: "a", Weight: -.25, Scorer: fixedScore(4)},
		}}, []data.RewardPart{{Weight: 3, Value: 7}, {Weight: -.25, Value: 4}, {Weight: .5, Value: -2}, {Weight: 2, Value: -1}}},
	} {
		tr := &player{core: &core{o: Options{
			Scoring: Scoring{Signal: "last", Allocation: "last_token", InvalidActionPenalty: 2, TurnPenalty: .5, Scorer: c.scorer},
			Update:  Update{Estimator: "gdpo"},
		}}}
		must(t, tr.lookUp())
		rows, err := tr.score(t.Context(), []*data.Episode{scoredEpisode()}, &scored{})
		must(t, err)
		if d := cmp.Diff(c.want, rows[0].Parts); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		sum := 0.0
		for _, p := range rows[0].Parts {
			sum += p.Weight * p.Value
		}
		if got := rows[0].RewardSum(); got != sum {
			t.Errorf("%s: the episode's reward is %g, want %g, the sum of its parts", c.name, got, sum)
		}
	}
}
