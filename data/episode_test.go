package data

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestForgetIDs(t *testing.T) {
	e := &Episode{
		Tokens: []int32{1, 2}, Contexts: []int{0}, Mask: []uint8{0, 1}, LogProbs: []float32{0, -1}, Reward: 1, Outcome: Success,
		Turns:    []Turn{{Start: 1, End: 2, Text: "go", Action: "go", Reward: 1}},
		Messages: []Message{{Role: "assistant", Content: "go"}},
	}
	e.ForgetIDs()
	want := &Episode{
		Reward: 1, Outcome: Success,
		Turns:    []Turn{{Text: "go", Action: "go", Reward: 1}},
		Messages: []Message{{Role: "assistant", Content: "go"}},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
