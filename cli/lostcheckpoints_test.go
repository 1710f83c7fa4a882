package cli

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestLostCheckpoints checks that a run whose checkpoints were removed begins again and keeps the metrics and episodes of
// its earlier steps.
func TestLostCheckpoints(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	args := append([]string{"train", "run.toml"}, slices.DeleteFunc(slices.Clone(shortRun), func(a string) bool { return a == "--quiet" })...)
	if code, _, stderr := inProcess(t, dir, args...); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	run := filepath.Join(dir, "runs", "tiny")
	metrics, err := os.ReadFile(filepath.Join(run, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(run, "checkpoints")); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := inProcess(t, dir, args...)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stderr", stderr, "no checkpoint", "set-aside/1")
	kept, err := os.ReadFile(filepath.Join(run, "set-aside", "1", "metrics.jsonl"))
	if err != nil || string(kept) != string(metrics) {
		t.Errorf("set-aside/1/metrics.jsonl has %d bytes (%v), the metrics had %d", len(kept), err, len(metrics))
	}
	for _, rollouts := range []string{filepath.Join(run, "rollouts"), filepath.Join(run, "set-aside", "1", "rollouts")} {
		if files, err := os.ReadDir(rollouts); err != nil || len(files) == 0 {
			t.Errorf("%s has %d files, %v", rollouts, len(files), err)
		}
	}
}
