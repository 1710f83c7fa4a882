package data

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// TestOrderGolden checks that the permutation is fixed, since checkpoints must also resume under later Go versions.
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
		for at := range 25 { // every position, including the ends of epochs
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
			resumed, err := NewOrder(8, false, 1) // Restore replaces the seed
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

func TestOrderErrors(t *testing.T) {
	if _, err := NewOrder(0, true, 1); err == nil {
		t.Error("an order of 0 tasks: no error")
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

func TestSampleTasks(t *testing.T) {
	all := make([]Task, 50)
	for i := range all {
		all[i].Index = i
	}
	indices := func(tasks []Task) (is []int) {
		for _, task := range tasks {
			is = append(is, task.Index)
		}
		return is
	}
	// Count the tasks from the second half of the list: there are none if SampleTasks returns a prefix.
	late, seen := 0, map[int]bool{}
	for seed := range uint64(40) {
		got := indices(SampleTasks(all, 10, seed))
		if len(got) != 10 || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != 10 {
			t.Fatalf("seed %d picks %v, want ten different indices in order", seed, got)
		}
		if second := indices(SampleTasks(all, 10, seed)); !slices.Equal(got, second) {
			t.Errorf("seed %d picks %v, then %v", seed, got, second)
		}
		for _, i := range got {
			seen[i] = true
			if i >= 25 {
				late++
			}
		}
	}
	if len(seen) != 50 || late < 150 || late > 250 {
		t.Errorf("40 samples of 10 tasks: %d of 50 different tasks, %d of 400 from the second half", len(seen), late)
	}
	for _, n := range []int{50, 60} {
		if got := SampleTasks(all, n, 1); len(got) != 50 {
			t.Errorf("SampleTasks of 50 tasks with n = %d returned %d tasks", n, len(got))
		}
	}
	if all[0].Index != 0 || all[49].Index != 49 {
		t.Error("SampleTasks changed its argument")
	}
}

func TestDropTasks(t *testing.T) {
	tasks := []Task{{ID: "a", Index: 1}, {ID: "b", Index: 25}, {ID: "c", Index: 2}, {ID: "b", Index: 25}}
	kept, dropped := DropTasks(tasks, func(t Task) bool { return t.Index < 25 })
	if len(kept) != 2 || kept[1].ID != "c" {
		t.Errorf("kept %v", kept)
	}
	if d := cmp.Diff(map[string]int{"b": 2}, dropped); d != "" {
		t.Error(d)
	}
}
