package data

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testEpisode returns a valid episode of two turns; n makes episodes distinct.
func testEpisode(n int) *Episode {
	return &Episode{
		Task: Task{ID: "maze_" + strconv.Itoa(n), Env: "maze", Index: n}, UID: "u" + strconv.Itoa(n), Sample: n, Seed: 7,
		Tokens: []int32{1, 2, 3, 4, 5, int32(n)}, Mask: []uint8{0, 1, 1, 0, 1, 0},
		LogProbs: []float32{0, -1, -2, 0, -3, 0}, Reward: float64(n), Outcome: Done, WeightVersion: 3,
		Turns: []Turn{{Start: 1, End: 3, Text: "a"}, {Start: 4, End: 5, Text: "b"}},
	}
}

func testRows(t *testing.T, n int) []Row {
	t.Helper()
	var es []*Episode
	for i := range n {
		es = append(es, testEpisode(i))
	}
	b, err := Rows(es)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRowsOfEpisodes(t *testing.T) {
	b := testRows(t, 2)
	e := testEpisode(1)
	want := Row{
		UID: "u1", TaskID: "maze_1", Env: "maze", Index: 1, Sample: 1, Seed: 7, WeightVersion: 3, Tokens: e.Tokens, Mask: e.Mask,
		RolloutLogProbs: e.LogProbs, Score: 1, EnvReward: 1, Outcome: Done, Turns: e.Turns,
	}
	if d := cmp.Diff(want, b[1]); d != "" {
		t.Errorf("row (-want +got):\n%s", d)
	}
	if got := b[0].SampledTokens(); got != 3 {
		t.Errorf("SampledTokens = %d, want 3", got)
	}
	for name, tc := range map[string]struct {
		change func(*Episode)
		want   string
	}{
		"env error":        {func(e *Episode) { e.Outcome = EnvError }, `"env_error" cannot be trained on`},
		"cancelled":        {func(e *Episode) { e.Outcome = Cancelled }, "cannot be trained on"},
		"no outcome":       {func(e *Episode) { e.Outcome = "" }, "cannot be trained on"},
		"no uid":           {func(e *Episode) { e.UID = "" }, "no uid"},
		"no tokens":        {func(e *Episode) { *e = Episode{UID: "u", Outcome: Done} }, "no tokens"},
		"no log-probs":     {func(e *Episode) { e.LogProbs = nil }, "LogProbs has 0 entries"},
		"short mask":       {func(e *Episode) { e.Mask = e.Mask[1:] }, "Mask has 5 entries"},
		"mask of 2":        {func(e *Episode) { e.Mask[0] = 2 }, "Mask[0] is 2"},
		"NaN log-prob":     {func(e *Episode) { e.LogProbs[1] = float32(math.NaN()) }, "RolloutLogProbs[1] is NaN"},
		"infinite reward":  {func(e *Episode) { e.Reward = math.Inf(1) }, "Score is +Inf"},
		"negative id":      {func(e *Episode) { e.Tokens[2] = -1 }, "token 2 has id -1"},
		"turn past end":    {func(e *Episode) { e.Turns[1].End = 7 }, "turn 1 spans"},
		"turns overlap":    {func(e *Episode) { e.Turns[1].Start = 2 }, "turn 1 spans"},
		"turn reversed":    {func(e *Episode) { e.Turns[0].End = 0 }, "turn 0 spans"},
		"unmasked sample":  {func(e *Episode) { e.Turns[1].End = 6 }, "Mask is 0 there"},
		"masked non-turn":  {func(e *Episode) { e.Mask[0] = 1 }, "the mask is 1 on 4 tokens"},
		"a turn too short": {func(e *Episode) { e.Turns[0].End = 2 }, "the mask is 1 on 3 tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			e := testEpisode(0)
			tc.change(e)
			_, err := Rows([]*Episode{testEpisode(5), e})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "episode 1") {
				t.Errorf("error %v, want %q for episode 1", err, tc.want)
			}
		})
	}
	if _, err := Rows([]*Episode{nil}); err == nil {
		t.Error("a nil episode was accepted")
	}
}

func TestRowValidate(t *testing.T) {
	rows := testRows(t, 3)
	if err := rows[1].Validate(); err != nil {
		t.Fatal(err)
	}
	rows[0].Advantages = []float32{1}
	rows[2].Returns = []float32{0, 0, 0, 0, 0, float32(math.Inf(-1))}
	for i, want := range map[int]string{0: "Advantages has 1 entries for 6 tokens", 2: "Returns[5] is -Inf"} {
		if err := rows[i].Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want %q", err, want)
		}
	}
}
