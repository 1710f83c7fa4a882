package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/internal/errext"
)

// inProcess runs a command in dir and returns the exit code, stdout and stderr.
func inProcess(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ts := newTestState(t, args...)
	ts.Dir = dir
	code = Main(ts.State)
	return code, ts.out.String(), ts.err.String()
}

// entries returns the names in a folder, or nil if the folder does not exist.
func entries(t *testing.T, parts ...string) []string {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(parts...))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func mustContain(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s lacks %q:\n%s", what, w, text)
		}
	}
}

// TestResumeWithOtherSettings checks that a run cannot be resumed with other settings of the experiment, that the error
// names the difference, that the run folder stays unchanged, and that other settings may change.
func TestResumeWithOtherSettings(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	first := append([]string{"train", "run.toml"}, shortRun...)
	if code, _, stderr := inProcess(t, dir, first...); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	run := filepath.Join(dir, "runs", "tiny")
	config, metrics := read(t, run, "config.toml"), read(t, run, "metrics.jsonl")

	code, _, stderr := inProcess(t, dir, append(slices.Clone(first),
		"--set", "actor.optim.lr=0.01", "--set", "model.fresh.layers=2", "--set", "trainer.seed=5", "--set", "env.maze.max_turns=4", "--set", "trainer.total_steps=3")...)
	if code != int(errext.Input) {
		t.Errorf("exit code %d", code)
	}
	mustContain(t, "stderr", stderr, "differs from the configuration of the checkpoint", filepath.Join("checkpoints", "step_000002"), "  model.fresh.layers: 1 -> 2",
		"  env.0.max_turns: 3 -> 4", "  actor.optim.lr: 0.001 -> 0.01", "  trainer.seed: 1 -> 5", "give trainer.experiment another name")
	if strings.Contains(stderr, "  trainer.total_steps") {
		t.Errorf("the error rejects another trainer.total_steps:\n%s", stderr)
	}
	if string(read(t, run, "config.toml")) != string(config) || string(read(t, run, "metrics.jsonl")) != string(metrics) {
		t.Error("the failed command changed the run folder")
	}

	code, stdout, stderr := inProcess(t, dir, append(slices.Clone(first),
		"--set", "trainer.total_steps=3", "--set", "trainer.save_every=2", "--set", "actor.micro_batch_size=1", "--set", "log.level=error")...)
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "3 steps")
	if st, err := rundir.ReadState(filepath.Join(run, "checkpoints", "step_000003")); err != nil || !st.Finished || st.Step != 3 {
		t.Errorf("state after the extended run: %+v (%v)", st, err)
	}

	// Supervised training cannot resume from a checkpoint of reinforcement learning in any folder.
	code, _, stderr = inProcess(t, dir, append(append([]string{"sft"}, first[1:]...), "--set", "trainer.resume="+filepath.Join(run, "checkpoints", "step_000002"))...)
	if code != int(errext.Input) {
		t.Errorf("exit code %d", code)
	}
	mustContain(t, "stderr", stderr, "is not a checkpoint of this run")

	// The number of epochs may change too. It sets the length of the run if total_steps is 0.
	for _, c := range []struct{ epochs, says string }{{"4", "4 steps"}, {"4", "raise trainer.epochs"}, {"5", "5 steps"}} {
		code, stdout, stderr = inProcess(t, dir, append(slices.Clone(first), "--set", "trainer.total_steps=0", "--set", "trainer.epochs="+c.epochs)...)
		if code != 0 {
			t.Fatalf("%s epochs: exit code %d:\n%s", c.epochs, code, stderr)
		}
		mustContain(t, "stdout", stdout, c.says)
	}
}

// TestResumeFromPath checks that resuming from an older checkpoint moves newer checkpoints, episodes and metrics to the
// folder set-aside, and that resume=auto then resumes the new branch.
func TestResumeFromPath(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	args := append([]string{"train", "run.toml"}, shortRun...)
	if code, _, stderr := inProcess(t, dir, args...); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	run := filepath.Join(dir, "runs", "tiny")
	whole := read(t, run, "metrics.jsonl")
	weights := read(t, run, filepath.Join("checkpoints", "step_000002", "actor", "model.safetensors"))

	// Stop the new branch before the first save, so that the only newer checkpoints are in set-aside.
	verbose := slices.Clone(args[:len(args)-1]) // without --quiet
	code, _, stderr := inProcess(t, dir, append(verbose, "--set", "trainer.resume=runs/tiny/checkpoints/step_000001", "--set", "trainer.total_steps=1")...)
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	mustContain(t, "stderr", stderr, "set aside", "[2]", filepath.Join("set-aside", "1"))
	aside := filepath.Join(run, "set-aside", "1")
	if got := entries(t, aside, "checkpoints"); !slices.Equal(got, []string{"step_000002"}) {
		t.Errorf("set-aside checkpoints: %v", got)
	}
	if string(read(t, aside, "metrics.jsonl")) != string(whole) {
		t.Error("the earlier metrics were not kept")
	}
	if got := entries(t, aside, "rollouts"); !slices.Equal(got, []string{"step_2.jsonl", "val_after_maze.jsonl"}) {
		t.Errorf("set-aside episodes: %v", got)
	}
	if got := entries(t, run, "checkpoints"); slices.Contains(got, "step_000002") || !slices.Contains(got, "step_000001") {
		t.Errorf("checkpoints: %v", got)
	}

	if st, err := rundir.ReadState(filepath.Join(run, "latest")); err != nil || st.Step != 1 {
		t.Errorf("the link latest points to step %d (%v)", st.Step, err)
	}

	// trainer.resume=auto resumes the new branch, not step 2, and ends with the weights of the first branch.
	code, stdout, stderr := inProcess(t, dir, args...)
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "2 steps")
	if string(read(t, run, filepath.Join("checkpoints", "step_000002", "actor", "model.safetensors"))) != string(weights) {
		t.Error("the second branch differs")
	}

	// The links latest and best are valid checkpoint paths.
	code, _, stderr = inProcess(t, dir, append(verbose, "--set", "trainer.resume=runs/tiny/latest", "--set", "trainer.total_steps=3")...)
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	mustContain(t, "stderr", stderr, "resuming after step 2")
}
