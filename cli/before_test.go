package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
)

// TestVersionBefore checks that the program reads files of an earlier version: it
// resumes a run for one step, shows and replays a dump, and checks a saved
// configuration. testdata/before/make.sh created the files.
func TestVersionBefore(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/before")); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := inProcess(t, dir, args...)
		if code != 0 {
			t.Fatalf("%q: exit code %d\n%s", args, code, stderr)
		}
		return stdout
	}
	folder := filepath.Join(dir, "runs", "tiny")
	before, err := rundir.ReadState(filepath.Join(folder, "checkpoints", "step_000002"))
	if err != nil || before.Step != 2 || before.KLCoef == nil || !before.WarmStarted {
		t.Fatalf("state of the checkpoint of the earlier version: %+v, error %v", before, err)
	}

	run("config", "check", filepath.Join("runs", "tiny", "checkpoints", "step_000002", "config.toml"))
	mustContain(t, "view", run("view", "dump.jsonl", "--text"), "maze")
	actor := filepath.Join("runs", "tiny", "checkpoints", "step_000002", "actor")
	run("replay", "dump.jsonl", "--model", actor)

	run("train", "run.toml", "--set", "trainer.total_steps=3")
	after, err := rundir.ReadState(filepath.Join(folder, "checkpoints", "step_000003"))
	if err != nil || after.Step != 3 || after.WeightVersion <= before.WeightVersion {
		t.Errorf("state after one more step: %+v, error %v", after, err)
	}
	lines := map[int]int{}
	err = track.Read(filepath.Join(folder, "metrics.jsonl"), func(l track.Line) error {
		if l.Phase == track.PhaseTrain {
			lines[l.Step]++
		}
		return nil
	})
	if err != nil || lines[1] != 1 || lines[2] != 1 || lines[3] != 1 {
		t.Errorf("lines by step: %v, %v", lines, err)
	}
}
