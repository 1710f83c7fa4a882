package configs

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestShort checks for all presets and environments that the short form loads as the same configuration as the full form, and
// that it is short.
func TestShort(t *testing.T) {
	checked := 0
	check := func(name string, envs, sets []string, most int) {
		t.Helper()
		c, err := schema.LoadPreset(name, envs, sets)
		if err != nil && name == "sft" { // environments without trajectories
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		checked++
		texts := [][]byte{}
		preset, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, env := range envs {
			text, err := EnvPreset(env)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, text)
		}
		short, err := c.Short(append(texts, preset)...)
		if err != nil {
			t.Errorf("%s %v %v: %v", name, envs, sets, err)
			return
		}
		fromShort, err := schema.Load("short.toml", short, nil)
		if err != nil {
			t.Errorf("%s %v: %v\n%s", name, envs, err, short)
			return
		}
		fromFull, err := schema.Load("full.toml", c.Marshal(), nil)
		if err != nil {
			t.Fatal(err)
		}
		ignore := cmp.Options{cmpopts.IgnoreFields(Config{}, "Schema", "Derived"), cmpopts.EquateNaNs(), cmpopts.EquateEmpty()}
		if d := cmp.Diff(fromFull, fromShort, ignore); d != "" {
			t.Errorf("%s %v %v: -full +short:\n%s\n%s", name, envs, sets, d, short)
		}
		if lines := strings.Count(string(short), "\n"); lines > most {
			t.Errorf("%s %v: %d lines\n%s", name, envs, lines, short)
		}
		for _, line := range strings.Split(string(short), "\n") {
			if len(line) > 150 {
				t.Errorf("%s %v: a line of %d characters: %s", name, envs, len(line), line)
			}
		}
	}
	for _, name := range PresetNames() {
		most := 45
		if slices.Contains(specificPresets, name) {
			most = 75 // complete experiments
		}
		check(name, nil, nil, most)
	}
	for _, name := range AlgorithmPresetNames() {
		for _, env := range EnvPresetNames() {
			check(name, []string{env}, nil, 45)
		}
	}
	if want := (len(AlgorithmPresetNames()) - 1) * len(EnvPresetNames()); checked < want {
		t.Errorf("checked %d configurations, want at least %d", checked, want)
	}
	check("grpo", []string{"maze", "wordle"}, []string{"env.wordle.weight=2", "actor.optim.lr=1e-5"}, 55)
	check("grpo", []string{"maze"}, []string{"data.train_batch_size=2", "rollout.group_size=4", "rollout.max_context_tokens=512"}, 45)
	check("ppo", []string{"maze"}, []string{`reward.components.goal.weight=0.5`}, 60)
}

func TestShortComments(t *testing.T) {
	text, err := Preset("grpo")
	if err != nil {
		t.Fatal(err)
	}
	c, err := schema.LoadPreset("grpo", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	short, err := c.Short(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`path = "Qwen/Qwen2.5-0.5B-Instruct"`, "# episodes per task", "[[env]]", "lr = 1e-06", "group_size = 8"} {
		if !strings.Contains(string(short), want) {
			t.Errorf("no %q in\n%s", want, short)
		}
	}
}

// TestShortCommentsOfTables checks that each [[env]] table of a mixture has the comments of its own preset.
func TestShortCommentsOfTables(t *testing.T) {
	var texts [][]byte
	envs := []string{"maze", "wordle"}
	for _, env := range envs {
		text, err := EnvPreset(env)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	c, err := schema.LoadPreset("grpo", envs, nil)
	if err != nil {
		t.Fatal(err)
	}
	short, err := c.Short(texts...)
	if err != nil {
		t.Fatal(err)
	}
	_, wordle, _ := strings.Cut(string(short), `name = "wordle"`)
	if wordle, _, _ = strings.Cut(wordle, "\n\n"); !strings.Contains(wordle, "any index is a seed") || strings.Contains(wordle, "start cells") {
		t.Errorf("the comments of wordle are\n%s", wordle)
	}
}
