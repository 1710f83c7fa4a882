package algo

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRolloutStep(t *testing.T) {
	for name, want := range map[string]int{
		"step_3.jsonl": 3, "val_step_12_maze.jsonl": 12, "val_step_12_step_4.jsonl": 12, "val_after_maze.jsonl": 1<<31 - 1,
		"val_before_maze.jsonl": -1, "val_untrained_maze.jsonl": -1, "notes.txt": -1, "step_x.jsonl": -1,
	} {
		got, ok := rolloutStep(name)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%s is of step %d, want %d", name, got, want)
		}
	}
}

func TestOwns(t *testing.T) {
	r := &RunFolder{Dir: t.TempDir()}
	must(t, r.Make())
	other := &RunFolder{Dir: t.TempDir()}
	must(t, other.Make())
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(r.Dir, link))
	for path, want := range map[string]bool{
		filepath.Join(r.Checkpoints(), "step_000001"):           true,
		filepath.Join(r.Checkpoints(), "step_000001") + "/":     true,
		filepath.Join(link, "checkpoints", "step_000001"):       true,
		filepath.Join(other.Checkpoints(), "step_000001"):       false,
		filepath.Join(r.Dir, "step_000001"):                     false,
		filepath.Join(r.Dir, "gone", "step_000001"):             false,
		filepath.Join(r.Checkpoints(), "step_000001", "deeper"): false,
	} {
		if got := r.Owns(path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
