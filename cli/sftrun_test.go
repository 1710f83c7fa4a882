package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/internal/errext"
)

// TestSFTOfPairs trains on pairs of prompt and response and validates on other pairs. It checks that the run keeps the
// weights with the lowest loss and continues if the number of epochs is raised.
func TestSFTOfPairs(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	pairs := func(words ...string) string {
		var b strings.Builder
		for _, w := range words {
			b.WriteString(`{"question":"say ` + w + `","answer":"` + w + `"}` + "\n")
		}
		return b.String()
	}
	writeFile(t, dir, "train.jsonl", pairs("up", "down", "left"))
	writeFile(t, dir, "val.jsonl", pairs("right"))
	args := []string{
		"sft", "run.toml", "--quiet", "--set", `sft.files=["train.jsonl"]`, "--set", `sft.val_files=["val.jsonl"]`,
		"--set", "sft.prompt_key=question", "--set", "sft.response_key=answer", "--set", "trainer.best_metric=loss",
		"--set", "trainer.keep_checkpoints=1", "--set", "trainer.save_every=0", "--set", "sft.dynamic_batch=true",
		"--set", "env.maze.expert_tasks=[]", "--set", "env.maze.val_tasks=[]", "--set", "sft.train_batch_size=1",
	}
	sft := func(epochs string) string {
		t.Helper()
		code, stdout, stderr := inProcess(t, dir, append(slices.Clone(args), "--set", "sft.epochs="+epochs)...)
		if code != 0 {
			t.Fatalf("%s epochs: exit code %d:\n%s", epochs, code, stderr)
		}
		return stdout
	}
	run := filepath.Join(dir, "runs", "tiny-sft")
	losses := func() map[float64]float64 { // the validation losses by step
		t.Helper()
		out := map[float64]float64{}
		err := track.Read(filepath.Join(run, "metrics.jsonl"), func(l track.Line) error {
			step, m := l.Step, l.Metrics
			if loss, ok := m["val/loss"]; ok {
				out[float64(step)] = loss
				if m["val/tokens"] <= 0 {
					t.Errorf("step %d: the loss is over %v tokens", step, m["val/tokens"])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}

	mustContain(t, "stdout", sft("2"), "6 steps")
	if got := losses(); len(got) != 4 { // a validation before training and after steps 2, 4 and 6
		t.Errorf("validations %v", got)
	}
	mustContain(t, "stdout", sft("2"), "this run is finished", "raise sft.epochs")
	mustContain(t, "stdout", sft("4"), "12 steps")
	seen := losses()
	if len(seen) != 7 {
		t.Errorf("validations %v", seen)
	}

	st, err := rundir.ReadState(filepath.Join(run, "checkpoints", "step_000012"))
	if err != nil || !st.Finished || st.Best == nil {
		t.Fatalf("%+v (%v)", st, err)
	}
	for step, loss := range seen {
		if loss < st.Best.Value || step == float64(st.Best.Step) && loss != st.Best.Value {
			t.Errorf("best checkpoint %+v, but step %v has %v", st.Best, step, loss)
		}
	}
	if best, err := rundir.ReadState(filepath.Join(run, "best")); err != nil || best.Step != st.Best.Step {
		t.Errorf("state of the best checkpoint: %+v (%v), want step %d", best, err, st.Best.Step)
	}

	// A run that has finished more epochs than sft.epochs trains nothing. It cannot resume with other columns.
	mustContain(t, "stdout", sft("1"), "12 steps")
	code, _, stderr := inProcess(t, dir, append(slices.Clone(args), "--set", "sft.epochs=5", "--set", "sft.response_key=question", "--set", "sft.prompt_key=answer")...)
	if code != int(errext.Input) {
		t.Errorf("exit code %d", code)
	}
	mustContain(t, "stderr", stderr, "  sft.prompt_key: \"question\" -> \"answer\"")
	code, _, stderr = inProcess(t, dir, append(slices.Clone(args), "--set", "sft.epochs=5", "--set", "sft.response_key=reply", "--set", "trainer.experiment=other")...)
	if code != int(errext.Input) {
		t.Errorf("exit code %d", code)
	}
	mustContain(t, "stderr", stderr, "train.jsonl: row 0, line 1: it has no value in column reply")

	// The run cannot resume with other validation rows, because they select the best epoch.
	writeFile(t, dir, "val.jsonl", pairs("left"))
	code, _, stderr = inProcess(t, dir, append(slices.Clone(args), "--set", "sft.epochs=5")...)
	if code != int(errext.Input) {
		t.Errorf("exit code %d", code)
	}
	mustContain(t, "stderr", stderr, "  sft.val_files: ", "give trainer.experiment another name")
}
