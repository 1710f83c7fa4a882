package reward

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

func turnsOf(rewards ...float64) []data.Turn {
	var turns []data.Turn
	for _, r := range rewards {
		turns = append(turns, data.Turn{Reward: r, Parsed: true})
	}
	return turns
}

func TestSignals(t *testing.T) {
	for _, c := range []struct {
		name           string
		rewards        []float64
		last, sum, max float64
	}{
		{"no step", nil, 0, 0, 0},
		{"sparse", []float64{0, 0, 1}, 1, 1, 1},
		{"running score", []float64{10, 25, 60}, 60, 95, 60},
		{"failure", []float64{0, -1}, -1, -1, 0},
		{"only failures", []float64{-2, -1, -3}, -3, -6, -1},
		{"reached and lost", []float64{0.5, 0}, 0, 0.5, 0.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, want := range map[string]float64{"last": c.last, "sum": c.sum, "max": c.max, "env_score": c.last} {
				signal, err := Signals.Lookup(name)
				if err != nil {
					t.Fatal(err)
				}
				if got := signal(turnsOf(c.rewards...)); got != want {
					t.Errorf("%s = %v, want %v", name, got, want)
				}
			}
		})
	}
}

// TestAllocations checks all allocations on the row of spec 12.5: two tokens of the prompt, two sampled, three of
// an observation, three sampled. The vectors of upstream have two more tokens of padding on the left.
func TestAllocations(t *testing.T) {
	mask := []uint8{0, 0, 1, 1, 0, 0, 0, 1, 1, 1}
	turns := []data.Turn{{Start: 2, End: 4, Reward: 0.25}, {Start: 7, End: 10, Reward: 1}}
	third := float32(1. / 3)
	for _, c := range []struct {
		name  string
		paid  Paid
		want  []float32
		total float64
	}{
		{"last_token", Paid{Score: 1}, []float32{0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 1},
		{"uniform_positive", Paid{Score: 1}, []float32{0, 0, .2, .2, 0, 0, 0, .2, .2, .2}, 1},
		{"uniform_positive", Paid{Score: -1}, []float32{0, 0, 0, 0, 0, 0, 0, 0, 0, -1}, -1},
		{"uniform_positive", Paid{}, make([]float32, 10), 0},
		{"discounted", Paid{Score: 1, Gamma: .5}, []float32{0, 0, .0625, .0625, 0, 0, 0, third, third, third}, 1.125},
		{"discounted", Paid{Score: -1, Gamma: 1}, []float32{0, 0, -.5, -.5, 0, 0, 0, -third, -third, -third}, -2},
		{"per_turn", Paid{Score: 1.25, Signal: Sum}, []float32{0, 0, 0, .25, 0, 0, 0, 0, 0, 1}, 1.25},
		{"per_turn", Paid{Score: 1, Signal: Last}, []float32{0, 0, 0, .25, 0, 0, 0, 0, 0, .75}, 1},
		{"per_turn", Paid{Score: 0.9, Signal: Last}, []float32{0, 0, 0, .25, 0, 0, 0, 0, 0, .65}, 0.9},
	} {
		t.Run(c.name, func(t *testing.T) {
			allocate, err := Allocations.Lookup(c.name)
			if err != nil {
				t.Fatal(err)
			}
			for _, turns := range [][]data.Turn{turns, nil} {
				if turns == nil && c.name == "per_turn" {
					continue
				}
				p := c.paid
				p.Mask, p.Turns = mask, turns
				got, err := allocate(p)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 1e-5)); d != "" {
					t.Errorf("%+v: %s", c.paid, d)
				}
				total := 0.0
				for _, x := range got {
					total += float64(x)
				}
				if math.Abs(total-c.total) > 1e-5 {
					t.Errorf("%+v: the sum is %v, want %v", c.paid, total, c.total)
				}
			}
			// The reward stays on the sampled tokens if an observation of eight
			// tokens follows. Upstream loses a reward outside its window.
			p := c.paid
			p.Mask, p.Turns = append(mask[:10:10], make([]uint8, 8)...), turns
			got, err := allocate(p)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(append(c.want[:10:10], make([]float32, 8)...), got, cmpopts.EquateApprox(0, 1e-5)); d != "" {
				t.Errorf("sampled tokens followed by an observation (-want +got):\n%s", d)
			}
			if _, err := allocate(Paid{Score: 1, Mask: []uint8{0, 0}, Signal: Sum, Turns: []data.Turn{{}}}); !errors.Is(err, ErrNoSampledToken) {
				t.Errorf("no sampled token: got %v, want ErrNoSampledToken", err)
			}
		})
	}
	if _, err := PerTurn(Paid{Score: 1, Mask: mask, Signal: Sum}); err == nil {
		t.Error("per_turn without turns: no error")
	}
}

// TestUnjudgedTurns checks that an unanswered reply has no reward and does not count as an invalid action.
func TestUnjudgedTurns(t *testing.T) {
	cut := data.Turn{Start: 9, End: 10, Unjudged: true}
	for name, want := range map[string][2]float64{"last": {60, -1}, "env_score": {60, -1}, "sum": {70, -3}, "max": {60, -1}} {
		signal, err := Signals.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, turns := range [][]data.Turn{append(turnsOf(10, 60), cut), append(turnsOf(-2, -1), cut)} {
			e := &data.Episode{Turns: turns}
			if got := signal.Of(e)(turns); got != want[i] {
				t.Errorf("signal %s of rewards %v and an unjudged reply is %v, want %v", name, turns[:2], got, want[i])
			}
			if got := SampleOf(e, signal).EnvReward; got != want[i] {
				t.Errorf("%s: EnvReward is %v, want %v", name, got, want[i])
			}
		}
		if got := signal.Of(&data.Episode{})([]data.Turn{cut}); got != 0 {
			t.Errorf("signal %s of one unjudged reply is %v, want 0", name, got)
		}
	}
	turns := append(turnsOf(10, 60), cut)
	turns[0].Start, turns[0].End, turns[1].Start, turns[1].End = 1, 2, 4, 6
	got, err := PerTurn(Paid{Score: 60, Mask: []uint8{0, 1, 0, 0, 1, 1, 0, 0, 0, 1}, Turns: turns, Signal: Signal(Last).Of(&data.Episode{})})
	if d := cmp.Diff([]float32{0, 10, 0, 0, 0, 50, 0, 0, 0, 0}, got); err != nil || d != "" {
		t.Errorf("per turn (%v): %s", err, d)
	}
	turns[1].Refused = true
	if got := LessTurns(1, turns, .25); got != .5 {
		t.Errorf("LessTurns of 1 for two judged turns, penalty 0.25: %v, want 0.5", got)
	}
	if got := LessInvalid(1, turns, .25); got != .75 {
		t.Errorf("LessInvalid of 1 for one invalid action, penalty 0.25: %v, want 0.75", got)
	}
	if valid, all := ValidActions(turns); valid != 1 || all != 2 {
		t.Errorf("%d of %d actions are valid, want 1 of 2", valid, all)
	}
}

// TestRefusedActionsKeepRunningScores checks that an action that the client refused leaves a running score
// unchanged, although its turn records 0. With a reward per step, the reward of such an action is 0.
func TestRefusedActionsKeepRunningScores(t *testing.T) {
	turns := turnsOf(10, 60, 0, 70, 0)
	for i := range turns {
		turns[i].Start, turns[i].End = i, i+1
		turns[i].Refused = turns[i].Reward == 0
	}
	mask := []uint8{1, 1, 1, 1, 1}
	for _, c := range []struct {
		cumulative bool
		last, max  float64
		perTurn    []float32
	}{
		{true, 70, 70, []float32{10, 50, 0, 10, 0}},
		{false, 0, 70, []float32{10, 50, -60, 70, -70}},
	} {
		e := &data.Episode{Turns: turns, Cumulative: c.cumulative}
		for name, want := range map[string]float64{"last": c.last, "env_score": c.last, "max": c.max} {
			signal, err := Signals.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := SampleOf(e, signal).EnvReward; got != want {
				t.Errorf("%s, cumulative %t: %v, want %v", name, c.cumulative, got, want)
			}
		}
		got, err := PerTurn(Paid{Score: c.last, Mask: mask, Turns: turns, Signal: Signal(Last).Of(e)})
		if d := cmp.Diff(c.perTurn, got); err != nil || d != "" {
			t.Errorf("per turn, cumulative %t (%v): %s", c.cumulative, err, d)
		}
	}
	if turns[2].Reward != 0 || turns[4].Reward != 0 {
		t.Errorf("the signal changed its argument: %+v", turns)
	}
	// The function agentgym sums rewards per step, and takes the last of running scores.
	p := registry.Values{}
	p[envClip.Key] = 0.0
	for cumulative, want := range map[bool]float64{true: 70, false: 140} {
		s := SampleOf(&data.Episode{Turns: turns, Cumulative: cumulative}, Last)
		if got := scoreOf(t, "agentgym", p, s).Extra["env"]; got != want {
			t.Errorf("agentgym, cumulative %t: env is %v, want %v", cumulative, got, want)
		}
	}
}

func TestPenalties(t *testing.T) {
	turns := make([]data.Turn, 4)
	turns[0].Parsed, turns[2].Parsed, turns[2].Refused = true, true, true
	if got := LessTurns(1, turns, 0.125); got != 0.5 {
		t.Errorf("LessTurns of 1 for four turns, penalty 0.125: %v, want 0.5", got)
	}
	if got := LessTurns(1, turns, 0); got != 1 {
		t.Errorf("LessTurns of 1 without a penalty: %v, want 1", got)
	}
	if got := LessTurns(0, nil, 0.125); got != 0 {
		t.Errorf("LessTurns of 0 without a turn: %v, want 0", got)
	}
	if got := LessInvalid(1, turns, 0.125); got != 0.625 {
		t.Errorf("LessInvalid of 1 for three invalid actions, penalty 0.125: %v, want 0.625", got)
	}
}

// scoreOf returns the score of one sample.
func scoreOf(t *testing.T, name string, p registry.Values, s Sample) Score {
	t.Helper()
	scorer, err := Open(name, p)
	if err != nil {
		t.Fatal(err)
	}
	scores, err := scorer.Score(t.Context(), []Sample{s})
	if err != nil {
		t.Fatal(err)
	}
	return scores[0]
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-5 }

func TestNeedsTruth(t *testing.T) {
	p := registry.Values{}
	p["patterns"], p["max_length"], p["overlong_buffer"] = []string{"x"}, 8, 4
	for _, name := range Functions.Names() {
		f, err := Functions.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		scorer, err := Open(name, p)
		if err != nil {
			t.Fatal(err)
		}
		_, err = scorer.Score(t.Context(), []Sample{{ID: "row 7", Source: "openai/gsm8k", Response: "x"}})
		needs := f.NeedsTruth || name == "data_source"
		if needs != errors.Is(err, ErrNoGroundTruth) || needs && !strings.Contains(err.Error(), "row 7") {
			t.Errorf("%s without a ground truth: error %v", name, err)
		}
	}
}

func TestInvalidParameters(t *testing.T) {
	for name, change := range map[string]func(registry.Values){
		"format":   func(p registry.Values) { p["patterns"] = []string{"("} },
		"length":   func(p registry.Values) { p["max_length"], p["min_length"] = 3, 4 },
		"overlong": func(p registry.Values) { p["max_length"], p["overlong_buffer"] = 3, 4 },
		"nonsense": func(registry.Values) {},
	} {
		p := registry.Values{}
		if _, err := Open(name, p); err == nil {
			t.Errorf("%s without parameters: no error", name)
		}
		change(p)
		if _, err := Open(name, p); err == nil {
			t.Errorf("%s: %+v: no error", name, p)
		}
	}
}

// fixed is a scorer that returns given scores.
type fixed []Score

func (f fixed) Score(context.Context, []Sample) ([]Score, error) { return f, nil }
func (f fixed) Close() error                                     { return nil }

func TestComposer(t *testing.T) {
	goal, err := Open("goal", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Composer{Components: []Component{
		{Name: "goal", Weight: 1, Scorer: goal},
		{Name: "other", Weight: -0.5, Scorer: fixed{{Value: 1, Extra: map[string]float64{"acc": 1}}, {Value: 3}}},
	}}
	got, err := c.Score(t.Context(), []Sample{{EnvReward: 1}, {EnvReward: 0}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]float64{0.5, -1.5}, got.Scores); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]float64{"reward/goal/mean": 0.5, "reward/other/mean": 2, "reward/other/acc": 1}, got.Metrics()); d != "" {
		t.Error(d)
	}
	for name, bad := range map[string]fixed{
		"too few": {{}}, "too many": {{}, {}, {}}, "NaN": {{}, {Value: math.NaN()}}, "infinite": {{Value: math.Inf(1)}, {}},
	} {
		c.Components[1].Scorer = bad
		if _, err := c.Score(t.Context(), make([]Sample, 2)); err == nil || !strings.Contains(err.Error(), "reward component other") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestComposedTurns checks that the components' numbers per turn are added, and that a number for the episode is in
// its last turn.
func TestComposedTurns(t *testing.T) {
	three := Sample{Turns: make([]data.Turn, 3), EnvReward: 6, TurnRewards: []float64{1, 2, 3}}
	goal, err := Open("goal", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Composer{Components: []Component{
		{Name: "goal", Weight: 2, Scorer: goal},
		{Name: "turns", Weight: -1, Scorer: fixed{{Value: 1, Turns: []float64{0, 1, 0}}, {Value: 9}}},
		{Name: "episode", Weight: 0.5, Scorer: fixed{{Value: 8}, {Value: 8}}},
	}}
	got, err := c.Score(t.Context(), []Sample{three, {EnvReward: 4}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([][]float64{{2, 3, 10}, nil}, got.Turns); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]float64{15, 3}, got.Scores); d != "" {
		t.Error(d)
	}
}

// TestPerTurnShares checks that the shares of score functions replace the signal.
func TestPerTurnShares(t *testing.T) {
	turns := []data.Turn{{Start: 1, End: 2, Reward: 50}, {Start: 2, End: 2}, {Start: 3, End: 5}}
	paid := Paid{Score: 2.5, Mask: []uint8{0, 1, 0, 1, 1, 0}, Turns: turns, Signal: Sum, Shares: []float64{1, 0.25, 2}}
	got, err := PerTurn(paid) // a penalty of 0.75
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]float32{0, 1, 0, 0, 1.5, 0}, got); d != "" {
		t.Error(d)
	}
	paid.Shares = paid.Shares[:2]
	if _, err := PerTurn(paid); err == nil {
		t.Error("two shares for three turns are no error")
	}
}

func TestSampleOf(t *testing.T) {
	e := &data.Episode{
		Task: data.Task{ID: "maze_3", Env: "maze", GroundTruth: "g"}, Mask: []uint8{0, 1, 1},
		Messages: []data.Message{{Role: "system", Content: "s"}, {Role: "user", Content: "u"}, {Role: "assistant", Content: "a"}, {Role: "user", Content: "o"}},
		Turns:    []data.Turn{{Text: "a", Reward: 1}, {Text: "b", Reward: 2}},
	}
	want := Sample{ID: "maze_3", Source: "maze", GroundTruth: "g", Prompt: "s\nu", Response: "a\nb", EnvReward: 3, TurnRewards: []float64{1, 2}, Tokens: 2, Turns: e.Turns, Messages: e.Messages}
	if d := cmp.Diff(want, SampleOf(e, Sum)); d != "" {
		t.Error(d)
	}
}

func TestTargets(t *testing.T) {
	for truth, want := range map[string][]string{
		"Paris": {"Paris"}, `["paris", "lyon"]`: {"paris", "lyon"}, `{"target": ["a", 3]}`: {"a", "3"}, `{"target": "x"}`: {"x"}, `{"target": 2.50}`: {"2.50"},
		"[not json": {"[not json"}, `{"other": 1}`: {`{"other": 1}`}, "[]": {"[]"}, `[{"a":1}]`: {`[{"a":1}]`}, "": {""},
	} {
		if d := cmp.Diff(want, Targets(truth)); d != "" {
			t.Errorf("%s: %s", truth, d)
		}
	}
}

// TestPerTurnRoundsOnce checks that the sum of the last turn's share and a penalty is rounded once.
func TestPerTurnRoundsOnce(t *testing.T) {
	turns := []data.Turn{{Start: 0, End: 1, Reward: 1000}, {Start: 1, End: 2, Reward: 1000.1}}
	got, err := PerTurn(Paid{Score: 1000, Mask: []uint8{1, 1}, Turns: turns, Signal: Signal(Last).Of(&data.Episode{})})
	if d := cmp.Diff([]float32{1000, 0}, got); err != nil || d != "" {
		t.Errorf("(%v) %s", err, d)
	}
}
