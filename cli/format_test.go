package cli

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/env"
)

// A whole run in a format that writes its prompts anew, warm start included.
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
	mustContain(t, "what to do next", stdout, "runs/tiny/config.toml\n")
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
			t.Errorf("%s holds no episode", name)
		}
	}
}

// The window and the words of prompts decide an evaluation's number.
func TestContractOfPrompts(t *testing.T) {
	parts := func(e configs.Env) map[string]string {
		t.Helper()
		ts := newTestState(t)
		spec, err := env.Lookup("maze")
		if err != nil {
			t.Fatal(err)
		}
		if e.MemoryFile != "" {
			writeFile(t, ts.Dir, e.MemoryFile, "old")
		}
		f, err := agent.FormatFor(e.Format, spec, agent.FormatOptions{HistoryLength: e.HistoryLength})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		if err := ts.addFormat(t.Context(), got, agent.Setup{Format: f, Spec: spec}, playOptions{Config: configs.Config{Env: []configs.Env{e}}}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := parts(configs.Env{Format: "react", HistoryLength: 2}); len(got) != 0 {
		t.Errorf("react has %v", got)
	}
	one, two := parts(configs.Env{Format: "history", HistoryLength: 1}), parts(configs.Env{Format: "history", HistoryLength: 2})
	staged := parts(configs.Env{Format: "staged", HistoryLength: 2, MemoryFile: "m.md"})
	if one["prompts"] == two["prompts"] || two["prompts"] == staged["prompts"] || staged["memory_file"] == "" {
		t.Errorf("%v, %v, %v", one, two, staged)
	}
}

// An episode of several contexts is drawn again id by id, each context from
// its own beginning, with the model and without.
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
				t.Fatal("no prompt of a third turn in the dump")
			}
			writeFile(t, dir, "changed.jsonl", changed)
			if code, out, _ := inProcess(t, dir, "replay", "changed.jsonl", "--no-model"); code == 0 || !strings.Contains(out, "turn 3") {
				t.Errorf("a changed prompt was not found: exit code %d\n%s", code, out)
			}
		})
	}
}

// worded is a format with words of its own: the rule that it states, and what
// it shows.
type worded struct {
	agent.Format
	rule, shown string
}

func (w worded) Prompt() string                      { return w.rule }
func (w worded) Begin(data.Task, int) agent.Prompter { return shows(w.shown) }

// shows is a prompter that always writes the same.
type shows string

func (p shows) Prompt(context.Context, agent.PromptState) (string, error) { return string(p), nil }

// A character of what a format says changes the contract, in the part that
// stands for it.
func TestContractOfWords(t *testing.T) {
	ts := newTestState(t)
	react, err := agent.Formats.Lookup("react")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := env.Lookup("maze")
	if err != nil {
		t.Fatal(err)
	}
	of := func(rule, shown string) eval.Contract {
		t.Helper()
		setup := agent.Setup{Format: worded{react, rule, shown}, Spec: spec}
		parts := map[string]string{"instruction": instructionPart([]data.Task{{Env: "maze", ID: "maze_1"}}, setup)}
		if err := ts.addFormat(t.Context(), parts, setup, playOptions{Config: configs.Config{Env: []configs.Env{{}}}}); err != nil {
			t.Fatal(err)
		}
		return eval.NewContract(parts)
	}
	base := of("Say so.", "Here.")
	if again := of("Say so.", "Here."); again.Hash != base.Hash {
		t.Errorf("the same words differ: %v", eval.Diff(base, again))
	}
	for part, other := range map[string]eval.Contract{"instruction": of("Say so!", "Here."), "prompts": of("Say so.", "Here!")} {
		if d := eval.Diff(base, other); len(d) != 1 || d[0].Part != part || other.Hash == base.Hash {
			t.Errorf("another character of the %s: differs in %v", part, d)
		}
	}
}
