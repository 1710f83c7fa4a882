package cli

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data/dump"
)

// TestTrainingInContexts checks that a run trains with a format that writes a new prompt every turn, including a warm start.
func TestTrainingInContexts(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	args := []string{"train", "run.toml"}
	for _, set := range []string{
		"env.maze.format=history", "model.fresh.walks=0", "rollout.max_context_tokens=1024", "data.max_prompt_tokens=1000", "sft.max_length=1024",
		"sft.epochs=4", "trainer.total_steps=1", "trainer.test_every=1",
	} {
		args = append(args, "--set", set)
	}
	code, stdout, stderr := inProcess(t, dir, args...)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "runs/tiny/config.toml\n")
	mustContain(t, "the configuration it names", one(t, dir, "runs/tiny/config.toml"), `format = "history"`)
	for _, name := range []string{"step_1", "val_after_maze"} {
		r, err := dump.Open(filepath.Join(dir, "runs/tiny/rollouts", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		n := 0
		for {
			ep, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
			if len(ep.Contexts) != len(ep.Turns) || len(ep.Turns) == 0 || len(ep.Turns[0].Prompt) == 0 {
				t.Errorf("%s: %d contexts of %d turns", name, len(ep.Contexts), len(ep.Turns))
			}
		}
		if n == 0 {
			t.Errorf("%s has no episode", name)
		}
	}
}

// TestReplayOfContexts checks that a replay, with and without the model, compares each context of an episode from the
// beginning of the context.
func TestReplayOfContexts(t *testing.T) {
	tiny := tinyModel(t)
	for _, format := range []string{"history", "staged"} {
		t.Run(format, func(t *testing.T) {
			dir := t.TempDir()
			link(t, tiny, dir, "m")
			code, _, stderr := inProcess(t, dir, "rollout", "--model", "m", "--device", "cpu", "--env", "maze", "--tasks", "17,18", "--format", format, "--history-length", "1",
				"--max-turns", "3", "--max-new-tokens", "8", "--dump", "d.jsonl", "--deterministic")
			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			for _, how := range [][]string{{"--model", "m", "--device", "cpu"}, {"--no-model"}} {
				if code, out, stderr := inProcess(t, dir, append([]string{"replay", "d.jsonl"}, how...)...); code != 0 || !strings.Contains(out, "2 episodes replayed, 0 differ") {
					t.Errorf("%s: exit code %d\n%s%s", how, code, out, stderr)
				}
			}
			text := one(t, dir, "d.jsonl")
			changed := strings.Replace(text, "You have taken 2 steps", "You have taken 3 steps", 1)
			if changed == text {
				t.Fatal("the dump has no prompt of a third turn")
			}
			writeFile(t, dir, "changed.jsonl", changed)
			if code, out, _ := inProcess(t, dir, "replay", "changed.jsonl", "--no-model"); code == 0 || !strings.Contains(out, "turn 3") {
				t.Errorf("a changed prompt was not found: exit code %d\n%s", code, out)
			}
		})
	}
}
