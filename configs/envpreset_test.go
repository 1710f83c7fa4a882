package configs

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openmanus/openmanus/data/registry"
)

// TestEnvPresets checks that each preset of an environment has only its [[env]] table.
func TestEnvPresets(t *testing.T) {
	var names []string
	for _, name := range EnvPresetNames() {
		names = append(names, name)
		text, err := EnvPreset(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if strings.HasPrefix(line, "[") && line != "[[env]]" {
				t.Errorf("the preset %s has the section %s, want only [[env]]", name, line)
			}
		}
		cfg, err := schema.Load(name, append([]byte("[model]\npath = \"m\"\n[sft]\nepochs = 1\nfiles = \"f.jsonl\"\n"), text...), nil)
		if err != nil {
			t.Errorf("loading only the preset %s: %v", name, err)
			continue
		}
		e := cfg.Env[0]
		if len(cfg.Env) != 1 || e.Name != name || len(e.Tasks) == 0 || len(e.ValTasks) == 0 || e.MaxTurns < 1 {
			t.Errorf("the preset %s has the tables %+v", name, cfg.Env)
		}
		if schema.IsTaskFile(e.Tasks[0]) {
			continue
		}
		train := map[int]bool{}
		for _, i := range indicesOf(t, e.Tasks) {
			train[i] = true
		}
		for _, i := range indicesOf(t, e.ValTasks) {
			if train[i] {
				t.Errorf("task %d of %s is used in training and in validation", i, name)
			}
		}
	}
	for _, name := range names { // environments of users have no preset
		if !slices.Contains(registry.NamesOf(schema.words.Environments, nil), name) {
			t.Errorf("there is no environment for the preset %s", name)
		}
	}
}

// withoutTrajectories reports whether the preset of an environment has neither a file of rows nor a built-in solver.
func withoutTrajectories(t *testing.T, env string) bool {
	t.Helper()
	cfg, err := schema.LoadPreset("grpo", []string{env}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return !schema.IsTaskFile(cfg.Env[0].Tasks[0]) && !cfg.environmentOf(cfg.Env[0]).Builtin
}

// TestPresetsCombine combines every algorithm preset with every environment, and one preset with a mixture of environments.
func TestPresetsCombine(t *testing.T) {
	for _, preset := range AlgorithmPresetNames() {
		for _, env := range EnvPresetNames() {
			cfg, err := schema.LoadPreset(preset, []string{env}, nil)
			if preset == "sft" && withoutTrajectories(t, env) {
				if err == nil || !strings.Contains(err.Error(), "no trajectories to train on") {
					t.Errorf("sft with %s, which has no trajectories: got %v, want an error about missing trajectories", env, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s with %s: %v", preset, env, err)
				continue
			}
			alone, err := schema.LoadPreset(preset, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Replace(alone.Trainer.Experiment, "textcraft", env, 1); cfg.Trainer.Experiment != want || !strings.HasPrefix(want, env) {
				t.Errorf("%s with %s has the experiment %s, want %s", preset, env, cfg.Trainer.Experiment, want)
			}
			cfg.Env, cfg.Trainer.Experiment = alone.Env, alone.Trainer.Experiment
			if diff := cmp.Diff(alone, cfg); diff != "" {
				t.Errorf("other keys of %s change with %s:\n%s", preset, env, diff)
			}
		}
	}
	cfg, err := schema.LoadPreset("ppo", []string{"maze", "wordle"}, []string{"env.maze.weight=2"})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Env) != 2 || cfg.Env[0].Weight != 2 || cfg.Env[1].Name != "wordle" || cfg.Trainer.Experiment != "maze-wordle-ppo" {
		t.Errorf("the mixture has the tables %+v and the experiment %s", cfg.Env, cfg.Trainer.Experiment)
	}
}

// TestSetOfAnEnvironmentWithASectionsName checks that env.webshop.KEY means the
// environment, although the specification has a section [env.webshop].
func TestSetOfAnEnvironmentWithASectionsName(t *testing.T) {
	cfg, err := schema.LoadPreset("grpo", []string{"webshop", "maze"}, []string{"env.webshop.max_turns=3"})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Env[0].MaxTurns != 3 || cfg.Env[1].MaxTurns == 3 {
		t.Errorf("the override changed the tables to %+v, want max_turns 3 in webshop only", cfg.Env)
	}
	_, err = schema.LoadPreset("grpo", []string{"webshop"}, []string{"env.webshop.use_small=true"})
	if err == nil || !strings.Contains(err.Error(), "not implemented yet") {
		t.Errorf("a key of the section [env.webshop]: got %v, want not implemented yet", err)
	}
}

func TestPresetsThatDoNotCombine(t *testing.T) {
	for _, tt := range []struct {
		preset string
		envs   []string
		want   string
	}{
		{"quickstart", []string{"maze"}, "is specific to its environment; presets for any environment: "},
		{"grpo", []string{"textcarft"}, "did you mean textcraft?"},
		{"gpro", []string{"maze"}, "did you mean grpo?"},
		{"grpo", []string{"maze", "maze"}, "env.0 already has the name maze"},
		{"grpo", []string{"../grpo"}, "there is no preset of an environment"},
		{"grpo", []string{"nosuchenv"}, "docs/own-environment.md"},
	} {
		if _, err := schema.LoadPreset(tt.preset, tt.envs, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s with %s: %v, want %q", tt.preset, tt.envs, err, tt.want)
		}
	}
}
