package checkpoint

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestKeptBeside checks that Save keeps the steps in its last argument, in addition to the newest ones. A later
// Save without a step in its last argument removes that step.
func TestKeptBeside(t *testing.T) {
	root := t.TempDir()
	for _, c := range []struct {
		step int
		also []int
		want string
	}{
		{1, nil, "1"},
		{2, []int{1}, "1 2"},
		{3, []int{1}, "1 2 3"},
		{4, []int{1}, "1 3 4"},
		{5, []int{5}, "4 5"}, // the step just written is one of the newest
		{6, []int{5}, "4 5 6"},
		{7, []int{5}, "5 6 7"},
		{8, nil, "7 8"},
	} {
		if err := Save(context.Background(), root, c.step, 2, filler(c.step), c.also...); err != nil {
			t.Fatal(err)
		}
		if got := steps(t, root); got != c.want {
			t.Errorf("after step %d with the extra steps %v the checkpoints %s are left, want %s", c.step, c.also, got, c.want)
		}
	}
}

// TestLink checks that a link points to its checkpoint also after the run folder is moved.
func TestLink(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	root, link := filepath.Join(run, "checkpoints"), filepath.Join(run, "best")
	save(t, root, 1, 0)
	save(t, root, 2, 0)
	for _, step := range []int{1, 2, 2} {
		if err := Link(root, step, link); err != nil {
			t.Fatal(err)
		}
		c, err := Open(context.Background(), link)
		if err != nil || c.Step != step {
			t.Fatalf("step %d: the link points to %+v (%v)", step, c, err)
		}
	}
	moved := run + "-moved"
	if err := os.Rename(run, moved); err != nil {
		t.Fatal(err)
	}
	if c, err := Open(context.Background(), filepath.Join(moved, "best")); err != nil || c.Step != 2 {
		t.Errorf("after the move the link best points to %+v (error %v), want step 2", c, err)
	}
}
