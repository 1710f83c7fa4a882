package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/hub/hubtest"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/internal/errext"
)

// TestWrittenConfigurations checks that config check accepts the files that config init writes for the built-in environments
// and for presets without data files, in an empty folder, and says how to get the model. For the other presets the check
// names the keys of the files that the user provides.
func TestWrittenConfigurations(t *testing.T) {
	hub := hubtest.New(t)
	check := func(code errext.ExitCode, words []string, args ...string) {
		dir := t.TempDir()
		if got, _, stderr := inProcess(t, dir, append([]string{"config", "init", "my.toml"}, args...)...); got != 0 {
			t.Errorf("%v: exit code %d\n%s", args, got, stderr)
			return
		}
		got, stdout, stderr := inEnvironment(t, dir, hub.Environment("hub"), "config", "check", "my.toml")
		if got != int(code) {
			t.Errorf("%v: exit code %d, want %d\n%s", args, got, code, stderr)
		}
		for _, w := range words {
			if !strings.Contains(stdout+stderr, w) {
				t.Errorf("%v: no %q in\n%s%s", args, w, stdout, stderr)
			}
		}
	}
	const fetch = "openmanus model fetch Qwen/Qwen2.5-0.5B-Instruct"
	own := map[string][]string{
		"rlvr":         {"env.0.tasks: data/gsm8k/train.parquet", "env.0.val_tasks", "prompts and answers"},
		"smollm2-maze": {"model.path: ./build/models/SmolLM2-135M-Instruct.gguf does not exist", "env.0.tasks: data/maze/train.parquet does not exist: give"},
	}
	for _, preset := range configs.PresetNames() {
		switch words := own[preset]; {
		case words != nil:
			check(errext.Input, words, "--preset", preset)
		case slices.Contains(configs.AlgorithmPresetNames(), preset):
			check(errext.OK, []string{"my.toml: ok for openmanus train", fetch}, "--preset", preset)
		default:
			check(errext.OK, []string{"my.toml: ok for openmanus train"}, "--preset", preset)
		}
	}
	for _, preset := range configs.AlgorithmPresetNames() {
		for _, env := range builtin.Names() {
			check(errext.OK, []string{"my.toml: ok for openmanus train", fetch}, "--preset", preset, "--env", env)
			check(errext.OK, nil, "--preset", preset, "--env", env, "--full")
		}
	}
}

// TestRealModel runs the commands of README's "A real model" and of the tutorial's section on it in order, each in one
// folder, with a tiny model on the hub, fewer tokens and one step.
func TestRealModel(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains models")
	}
	tiny := tinyModel(t)
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for page, text := range map[string]string{
		"README.md": section(t, string(readme), "## A real model"), "tutorial.md": section(t, pages(t)["tutorial.md"], "## 4. A real model"),
	} {
		t.Run(page, func(t *testing.T) {
			hub := hubtest.New(t)
			hub.AddFolder(t, "Qwen/Qwen2.5-0.5B-Instruct", tiny)
			dir := t.TempDir()
			small := []string{"rollout.max_context_tokens=2048", "rollout.max_new_tokens=4", "rollout.group_size=2", "data.train_batch_size=2", "env.0.max_turns=2",
				"data.val_limit=2", "trainer.total_steps=1", "actor.mini_batch_size=0"}
			commands := 0
			for _, block := range fenced.FindAllStringSubmatch(text, -1) {
				if block[1] != "sh" {
					continue
				}
				for _, words := range shellLines(block[2]) {
					args := words[1:]
					if args[0] == "train" || args[0] == "plan" {
						for _, s := range small {
							args = append(args, "--set", s)
						}
					}
					if args[0] == "chat" {
						args = append(args, "--max-new-tokens", "4")
					}
					commands++
					if code, stdout, stderr := inEnvironment(t, dir, hub.Environment("hub"), args...); code != 0 {
						t.Fatalf("%v: exit code %d\n%s%s", args, code, stdout, stderr)
					}
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "runs", "textcraft-grpo", "latest")); err != nil || commands < 5 {
				t.Errorf("%d commands, %v", commands, err)
			}
		})
	}
}

// section returns the part of a page from a heading to the next heading of the same level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, text, ok := strings.Cut(page, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("the page has no section %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}
