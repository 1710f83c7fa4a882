package rundir

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
		got, ok := RolloutStep(name)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("RolloutStep(%s) = %d, want %d", name, got, want)
		}
	}
}

func TestOwns(t *testing.T) {
	r := &Folder{Dir: t.TempDir()}
	if err := r.Make(); err != nil {
		t.Fatal(err)
	}
	other := &Folder{Dir: t.TempDir()}
	if err := other.Make(); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(r.Dir, link); err != nil {
		t.Fatal(err)
	}
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
			t.Errorf("Owns(%s) = %v, want %v", path, got, want)
		}
	}
}
