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
		e := o.Next(20)
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
	if slices.Equal(other.Next(20), epochs[0]) {
		t.Error("two seeds give the same order")
	}
	plain, err := NewOrder(3, false, 5)
	if err != nil {
		t.Fatal(err)
	}
	if got := plain.Next(7); !slices.Equal(got, []int{0, 1, 2, 0, 1, 2, 0}) {
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
	if got := o.Next(16); !slices.Equal(got, []int{3, 1, 2, 4, 5, 0, 7, 6, 7, 2, 0, 6, 5, 3, 4, 1}) {
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
			o.Next(at)
			text, err := json.Marshal(o.State())
			if err != nil {
				t.Fatal(err)
			}
			var s OrderState
			if err := json.Unmarshal(text, &s); err != nil {
				t.Fatal(err)
			}
			resumed, err := NewOrder(8, false, 1) // the state brings its own seed
			if err != nil {
				t.Fatal(err)
			}
			if err := resumed.Restore(s); err != nil {
				t.Fatal(err)
			}
			if want, got := o.Next(20), resumed.Next(20); !slices.Equal(want, got) {
				t.Errorf("resumed at %d: %v, want %v", at, got, want)
			}
		}
	}
}

func TestOrderRefuses(t *testing.T) {
	if _, err := NewOrder(0, true, 1); err == nil {
		t.Error("an order of no tasks was made")
	}
	o, err := NewOrder(8, true, 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]OrderState{
		"other data":        {Tasks: 9},
		"negative epoch":    {Tasks: 8, Epoch: -1},
		"negative position": {Tasks: 8, Position: -1},
		"position past end": {Tasks: 8, Position: 9},
	} {
		if err := o.Restore(s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
