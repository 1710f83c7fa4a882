package checkpoint

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestSetAside(t *testing.T) {
	root, to := t.TempDir(), filepath.Join(t.TempDir(), "aside", "checkpoints")
	for step := 1; step <= 4; step++ {
		save(t, root, step, 0)
	}
	if moved, err := SetAside(root, 4, to); err != nil || moved != nil {
		t.Fatalf("SetAside after the newest step = %v, %v, want nothing", moved, err)
	}
	moved, err := SetAside(root, 2, to)
	if err != nil || len(moved) != 2 || moved[0] != 4 || moved[1] != 3 {
		t.Fatalf("SetAside = %v, %v, want the steps 4 and 3", moved, err)
	}
	if a, b := steps(t, root), steps(t, to); a != "1 2" || b != "3 4" {
		t.Errorf("the steps %q are left and %q are set aside, want 1 2 and 3 4", a, b)
	}
	if _, err := Open(t.Context(), filepath.Join(to, "step_000004")); err != nil {
		t.Errorf("a checkpoint that was set aside is damaged: %v", err)
	}
	save(t, root, 3, 0)
	if _, err := SetAside(root, 2, to); err == nil {
		t.Error("a checkpoint in the set-aside folder was replaced")
	}
}

// TestSetAsideDiesInBetween checks that SetAside moves the newest checkpoints first, so that the
// remaining steps have no gap if the process dies.
func TestSetAsideDiesInBetween(t *testing.T) {
	root, to := t.TempDir(), filepath.Join(t.TempDir(), "aside")
	for step := 1; step <= 4; step++ {
		save(t, root, step, 0)
	}
	n := 0
	d := disk{before: func(op, _ string) error {
		if op == "rename" {
			if n++; n == 2 {
				return errors.New("dead")
			}
		}
		return nil
	}}
	if _, err := d.setAside(root, 1, to); err == nil {
		t.Fatal("setAside returned no error for the failed rename")
	}
	if a, b := steps(t, root), steps(t, to); a != "1 2 3" || b != "4" {
		t.Errorf("%q are left and %q are set aside", a, b)
	}
}
