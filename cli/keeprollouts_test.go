package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestKeepRollouts checks that trainer.keep_rollouts limits the number of steps whose episodes are kept, and that
// commands read episodes that trainer.compress_rollouts compressed.
func TestKeepRollouts(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	run := filepath.Join("runs", "tiny")
	train := func(sets ...string) (stdout string) {
		t.Helper()
		args := []string{"train", "run.toml"}
		for _, set := range sets {
			args = append(args, "--set", set)
		}
		code, stdout, stderr := inProcess(t, dir, args...)
		if code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		return stdout
	}
	kept := func(want ...string) {
		t.Helper()
		if got := entries(t, dir, filepath.Join(run, "rollouts")); !slices.Equal(got, want) {
			t.Errorf("kept %q, want %q", got, want)
		}
	}

	train("trainer.keep_rollouts=2", "trainer.total_steps=3")
	kept("step_2.jsonl", "step_3.jsonl", "val_after_maze.jsonl", "val_before_maze.jsonl", "val_step_2_maze.jsonl")
	train("trainer.keep_rollouts=2", "trainer.compress_rollouts=true")
	kept("step_3.jsonl", "step_4.jsonl.zst", "val_after_maze.jsonl.zst", "val_before_maze.jsonl", "val_step_2_maze.jsonl")

	file := filepath.Join(run, "rollouts", "step_4.jsonl.zst")
	for _, args := range [][]string{
		{"view", run, "--step", "4", "--html", "run.html"},
		{"view", file, "--html", "file.html"},
		{"data", "info", file},
		{"data", "head", file},
		{"train", "run.toml", "--from-dump", file, "--off-policy", "--set", "sft.epochs=0", "--set", "model.fresh.layers=0",
			"--set", "model.path=" + filepath.Join(run, "checkpoints", "step_000004", "actor")},
	} {
		if code, _, stderr := inProcess(t, dir, args...); code != 0 {
			t.Errorf("%q: exit code %d:\n%s", args, code, stderr)
		}
	}

	stdout := train("trainer.keep_rollouts=-1", "trainer.experiment=none")
	run = filepath.Join("runs", "none")
	kept()
	mustContain(t, "stdout", stdout, "  metrics ")
	if strings.Contains(stdout, "  episodes  ") {
		t.Errorf("stdout names a folder of episodes:\n%s", stdout)
	}
}
