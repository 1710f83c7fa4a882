package data

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
	// Half of the tasks lie in the last half of the file; a prefix has none.
	late, seen := 0, map[int]bool{}
	for seed := range uint64(40) {
		got := indices(SampleTasks(all, 10, seed))
		if len(got) != 10 || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != 10 {
			t.Fatalf("seed %d picks %v, want ten different ones in order", seed, got)
		}
		if again := indices(SampleTasks(all, 10, seed)); !slices.Equal(got, again) {
			t.Errorf("seed %d picks %v and %v", seed, got, again)
		}
		for _, i := range got {
			seen[i] = true
			if i >= 25 {
				late++
			}
		}
	}
	if len(seen) != 50 || late < 150 || late > 250 {
		t.Errorf("40 samples of 10 have %d of 50 tasks, %d of 400 picks in the second half", len(seen), late)
	}
	for _, n := range []int{50, 60} {
		if got := SampleTasks(all, n, 1); len(got) != 50 {
			t.Errorf("%d of 50 are %d", n, len(got))
		}
	}
	if all[0].Index != 0 || all[49].Index != 49 {
		t.Error("the list itself was changed")
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
