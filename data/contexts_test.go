package data

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// contextEpisode returns an episode of three contexts with 2, 1 and 0 turns.
// Each prompt has two tokens.
func contextEpisode(sample int) *Episode {
	return &Episode{
		Task: Task{ID: "maze_1", Env: "maze", Index: 1}, UID: "u", Sample: sample, Reward: 1, Outcome: Success,
		Tokens:   []int32{10, 11, 12, 13, 14, 20, 21, 22, 23, 30, 31},
		Mask:     []uint8{0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0},
		LogProbs: []float32{0, 0, -1, 0, -2, 0, 0, -3, -4, 0, 0},
		Contexts: []int{0, 5, 9},
		Turns:    []Turn{{Start: 2, End: 3, Text: "a"}, {Start: 4, End: 5, Text: "b"}, {Start: 7, End: 9, Text: "c", Prompt: []Message{{Role: "user", Content: "x"}}}},
	}
}

func TestOneRowPerContext(t *testing.T) {
	b, err := Rows([]*Episode{testEpisode(0), contextEpisode(0), contextEpisode(1)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if err := b[i].Validate(); err != nil {
			t.Error(err)
		}
	}
	if len(b) != 7 {
		t.Fatalf("%d rows, want 7", len(b))
	}
	row := func(i int, tokens []int32, mask []uint8, logProbs []float32, turns []Turn) Row {
		return Row{
			UID: "u", TaskID: "maze_1", Env: "maze", Index: 1, Context: i, Contexts: 3, Tokens: tokens, Mask: mask,
			RolloutLogProbs: logProbs, Score: 1, EnvReward: 1, Outcome: Success, Turns: turns,
		}
	}
	want := []Row{
		row(0, []int32{10, 11, 12, 13, 14}, []uint8{0, 0, 1, 0, 1}, []float32{0, 0, -1, 0, -2},
			[]Turn{{Start: 2, End: 3, Text: "a"}, {Start: 4, End: 5, Text: "b"}}),
		row(1, []int32{20, 21, 22, 23}, []uint8{0, 0, 1, 1}, []float32{0, 0, -3, -4},
			[]Turn{{Start: 2, End: 4, Text: "c", Prompt: []Message{{Role: "user", Content: "x"}}}}),
		row(2, []int32{30, 31}, []uint8{0, 0}, []float32{0, 0}, nil),
	}
	if d := cmp.Diff(want, b[1:4]); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
}

func TestByEpisode(t *testing.T) {
	b, err := Rows([]*Episode{contextEpisode(0), testEpisode(4), contextEpisode(1)})
	if err != nil {
		t.Fatal(err)
	}
	err = ByEpisode(b, func(episodes []Row) error {
		if len(episodes) != 3 {
			t.Fatalf("got %d episodes, want 3", len(episodes))
		}
		for i, e := range []*Episode{contextEpisode(0), testEpisode(4), contextEpisode(1)} {
			r := &episodes[i]
			if err := r.Validate(); err != nil {
				t.Error(err)
			}
			if d := cmp.Diff([]any{e.Tokens, e.Mask, e.LogProbs, e.Turns}, []any{r.Tokens, r.Mask, r.RolloutLogProbs, r.Turns}); d != "" {
				t.Errorf("episode %d (-want +got):\n%s", i, d)
			}
			r.Score = float64(i)
			r.Advantages = make([]float32, len(r.Tokens))
			for j := range r.Advantages {
				r.Advantages[j] = float32(100*i + j)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := [][]float32{{0, 1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10}, {100, 101, 102, 103, 104, 105}, {200, 201, 202, 203, 204}, {205, 206, 207, 208}, {209, 210}}
	for i, r := range b {
		if d := cmp.Diff(want[i], r.Advantages); d != "" || r.Returns != nil || r.Score != float64([]int{0, 0, 0, 1, 2, 2, 2}[i]) {
			t.Errorf("row %d: score %v, returns %v (-want +got):\n%s", i, r.Score, r.Returns, d)
		}
	}

	stop := errors.New("stop")
	if err := ByEpisode(b, func([]Row) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error %v, want %v", err, stop)
	}
	err = ByEpisode(b, func(e []Row) error { e[0].Values = []float32{1}; return nil })
	if err == nil || !strings.Contains(err.Error(), "Values has 1 entries") {
		t.Errorf("Values of the wrong length: error %v", err)
	}
	b[2].Advantages = nil // the row has no sampled token
	err = ByEpisode(b, func(episodes []Row) error {
		if d := cmp.Diff([]float32{5, 6, 7, 8, 0, 0}, episodes[0].Advantages[5:]); d != "" {
			t.Errorf("advantages of the context without a sampled token (-want +got):\n%s", d)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	b[1].Advantages = nil
	if err := ByEpisode(b, func([]Row) error { return nil }); err == nil || !strings.Contains(err.Error(), "some of its contexts have Advantages") {
		t.Errorf("Advantages in only some contexts: error %v", err)
	}
}

func TestContextStart(t *testing.T) {
	e := contextEpisode(0)
	for i, want := range map[int]int{0: 0, 4: 0, 5: 5, 8: 5, 9: 9, 10: 9} {
		if got := e.ContextStart(i); got != want {
			t.Errorf("the context of token %d begins at %d, want %d", i, got, want)
		}
	}
	if got := testEpisode(0).ContextStart(4); got != 0 {
		t.Errorf("the only context begins at %d, want 0", got)
	}
}

// TestIncompleteContexts checks that ByEpisode rejects episodes with contexts that are missing or out of order.
func TestIncompleteContexts(t *testing.T) {
	b, err := Rows([]*Episode{contextEpisode(0), contextEpisode(1)})
	if err != nil {
		t.Fatal(err)
	}
	for name, order := range map[string][]int{
		"swapped": {1, 0, 2, 3, 4, 5}, "mixed": {0, 4, 2, 3, 1, 5}, "cut": {0, 1, 2, 3, 4}, "first missing": {1, 2},
	} {
		var rows []Row
		for _, i := range order {
			rows = append(rows, b[i])
		}
		if err := ByEpisode(rows, func([]Row) error { return nil }); err == nil {
			t.Errorf("%s contexts: no error", name)
		}
	}
}

func TestInvalidContexts(t *testing.T) {
	for name, tc := range map[string]struct {
		contexts []int
		want     string
	}{
		"late start":      {[]int{2, 5}, "begins at token 2"},
		"empty":           {[]int{0, 5, 5}, "context 1 spans tokens [5, 5)"},
		"backwards":       {[]int{0, 9, 5}, "context 1 spans"},
		"past the end":    {[]int{0, 11}, "context 1 spans tokens [11, 11)"},
		"inside a turn":   {[]int{0, 8}, "turn 2 is in two contexts"},
		"at a turn's end": {[]int{0, 3, 9}, ""},
	} {
		e := contextEpisode(0)
		e.Contexts = tc.contexts
		_, err := Rows([]*Episode{e})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
