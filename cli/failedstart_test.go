package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

// TestFailedStartRemovesFolder checks that a failure before the first save removes the run folder, unless the
// folder has results.
func TestFailedStartRemovesFolder(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	writeFile(t, dir, "pairs.jsonl", `{"question":"q","answer":"a"}`)
	fail := func(name string, want errext.ExitCode, args ...string) {
		t.Helper()
		code, _, stderr := inProcess(t, dir, args...)
		if code != int(want) {
			t.Fatalf("%s: exit code %d, want %d\n%s", name, code, want, stderr)
		}
	}
	gone := func(name string) {
		t.Helper()
		if left, err := os.ReadDir(filepath.Join(dir, "runs")); err != nil || len(left) > 0 {
			t.Fatalf("%s: remaining files %v, %v", name, left, err)
		}
	}
	for name, set := range map[string]string{
		"tasks":    "env.maze.tasks=pairs.jsonl",
		"no file":  "env.maze.tasks=absent.jsonl",
		"fresh":    "trainer.resume=never",
		"resume":   "trainer.resume=absent",
		"no model": "model.path=absent",
	} {
		args := []string{"train", "run.toml", "--set", set}
		want := errext.Input
		switch name {
		case "fresh":
			args = append(args, "--set", "env.maze.tasks=pairs.jsonl")
		case "no model":
			args = append(args, "--set", "model.fresh.layers=0", "--set", "model.fresh.walks=0")
			want = errext.Model
		case "resume":
			want = errext.Disk
		}
		fail(name, want, args...)
		gone(name)
	}
	fail("sft", errext.Input, "sft", "run.toml", "--set", "sft.files=pairs.jsonl")
	gone("sft")
	fail("server", errext.Env, "train", "run.toml", "--set", "env.maze.servers=http://127.0.0.1:1", "--set", "sft.epochs=0", "--set", "model.fresh.vocabulary=bytes", "--set", "model.fresh.walks=0", "--set", "rollout.max_context_tokens=3000", "--set", "data.max_prompt_tokens=2000",
		"--set", "env.maze.expert_tasks=", "--set", "env.maze.wait_healthy_s=0.1")
	gone("server")

	run := filepath.Join(dir, "runs", "tiny")
	if err := os.MkdirAll(run, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, run, "config.toml", tinyRun)
	fail("the folder's own configuration", errext.Input, "train", "runs/tiny/config.toml", "--set", "env.maze.tasks=absent.jsonl")
	if err := os.Remove(filepath.Join(run, "config.toml")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, run, "notes.txt", "mine")
	fail("notes", errext.Input, "train", "run.toml", "--set", "env.maze.tasks=pairs.jsonl")
	if text := read(t, run, "notes.txt"); string(text) != "mine" {
		t.Errorf("notes.txt: %q", text)
	}

	if code, _, stderr := inProcess(t, dir, append([]string{"train", "run.toml"}, shortRun...)...); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	before := entries(t, filepath.Join(run, "checkpoints"))
	fail("resumed", errext.Input, "train", "run.toml", "--set", "trainer.total_steps=3", "--set", "sft.epochs=4", "--set", "env.maze.val_tasks=pairs.jsonl")
	if after := entries(t, filepath.Join(run, "checkpoints")); strings.Join(before, " ") != strings.Join(after, " ") || len(after) == 0 {
		t.Errorf("checkpoints before: %v, now: %v", before, after)
	}
}
