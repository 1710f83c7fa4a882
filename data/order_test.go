package data

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestOrderEpochs(t *testing.T) {
	o, err := NewOrder(20, true, 5)
	if err != nil {
		t.Fatal(err)
	}
	var epochs [][]int
	for range 3 {
		e := o.Take(20)
		epochs = append(epochs, e)
		sorted := slices.Sorted(slices.Values(e))
		for i, v := range sorted {
			if v != i {
				t.Fatalf("an epoch is not a permutation: %v", e)
			}
		}
	}
	if slices.Equal(epochs[0], epochs[1]) || slices.Equal(epochs[1], epochs[2]) {
		t.Error("two epochs have the same order")
	}
	other, err := NewOrder(20, true, 6)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Equal(other.Take(20), epochs[0]) {
		t.Error("two seeds give the same order")
	}
	plain, err := NewOrder(3, false, 5)
	if err != nil {
		t.Fatal(err)
	}
	if got := plain.Take(7); !slices.Equal(got, []int{0, 1, 2, 0, 1, 2, 0}) {
		t.Errorf("without shuffle: %v", got)
	}
}

// TestOrderGolden pins the permutation: a checkpoint of today must resume
// under the Go versions of tomorrow.
func TestOrderGolden(t *testing.T) {
	o, err := NewOrder(8, true, 42)
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Take(16); !slices.Equal(got, []int{3, 1, 2, 4, 5, 0, 7, 6, 7, 2, 0, 6, 5, 3, 4, 1}) {
		t.Errorf("order %v", got)
	}
}

func TestOrderResumesExactly(t *testing.T) {
	for _, shuffle := range []bool{true, false} {
		for at := range 25 { // every position, epoch ends among them
			o, err := NewOrder(8, shuffle, 42)
			if err != nil {
				t.Fatal(err)
			}
			o.Take(at)
			text, err := json.Marshal(o.State())
			if err != nil {
				t.Fatal(err)
			}
			var s OrderState
			if err := json.Unmarshal(text, &s); err != nil {
				t.Fatal(err)
			}
			resumed, err := ResumeOrder(8, s)
			if err != nil {
				t.Fatal(err)
			}
			if want, got := o.Take(20), resumed.Take(20); !slices.Equal(want, got) {
				t.Errorf("resumed at %d: %v, want %v", at, got, want)
			}
		}
	}
}

func TestOrderRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		n int
		s OrderState
	}{
		"no tasks":          {0, OrderState{}},
		"other data":        {9, OrderState{Tasks: 8}},
		"negative epoch":    {8, OrderState{Tasks: 8, Epoch: -1}},
		"negative position": {8, OrderState{Tasks: 8, Position: -1}},
		"position past end": {8, OrderState{Tasks: 8, Position: 9}},
	} {
		if _, err := ResumeOrder(tc.n, tc.s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
