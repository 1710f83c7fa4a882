package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/configs"
)

// TestMethodsAreConfigurations checks that every method is a valid configuration and has the [algo] section of its preset, if any.
func TestMethodsAreConfigurations(t *testing.T) {
	load := func(preset string, sets []string) configs.Config {
		t.Helper()
		text, err := configs.Preset(preset)
		if err != nil {
			t.Fatal(err)
		}
		c, err := schema.Load(preset+".toml", text, sets)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	start := load("quickstart", nil)
	for _, m := range methods {
		c := load("quickstart", m.sets)
		if c.Trainer.TotalSteps%testEvery != 0 {
			t.Errorf("%s: the last step has no validation: validations are every %d steps", m.name, testEvery)
		}
		for _, changed := range configs.Diff(start, c) {
			section, _, _ := strings.Cut(changed.Key, ".")
			if !slices.Contains([]string{"algo", "critic", "actor", "trainer"}, section) {
				t.Errorf("%s: %s changes the task of the quickstart", m.name, changed)
			}
		}
		if !slices.Contains(configs.PresetNames(), m.name) || m.name == "grpo" { // grpo is the quickstart itself
			continue
		}
		want := load(m.name, nil).Algo
		if m.name == "gigpo" { // mean_norm is equivalent to the quickstart's norm_by_std = false
			want.Params["gigpo_norm"] = "mean_norm"
		}
		a, b := start, c
		a.Algo, b.Algo = want, c.Algo
		for _, changed := range configs.Diff(a, b) {
			if strings.HasPrefix(changed.Key, "algo.") {
				t.Errorf("%s: %s differs from the preset's", m.name, changed)
			}
		}
	}
}

func TestMeasureMethods(t *testing.T) {
	two, err := methodsNamed([]string{"grpo", "rloo"})
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "openmanus")
	// The script does not train: it records its arguments and writes metrics that depend on the seed.
	const script = `#!/bin/sh
for a; do
  case $a in
  trainer.output_dir=*) out=${a#*=}/quickstart ;;
  trainer.seed=*) seed=${a#*=} ;;
  esac
done
mkdir -p "$out"
echo "$@" >"$out/args"
{
  echo '{"step":0,"val/maze/success_rate":0.25}'
  echo '{"step":4,"val/maze/success_rate":0.5}'
  [ $seed = 1 ] && echo '{"step":8,"val/maze/success_rate":0.9375}'
  echo '{"step":12,"val/maze/success_rate":0.'$((10 - seed))'}'
} >"$out/metrics.jsonl"
`
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	l, err := measureMethods(t.Context(), program, dir, two, 2, 2, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var out strings.Builder
	if err := l.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if f := strings.Fields(line); len(f) > 6 && (f[0] == "grpo" || f[0] == "rloo" && f[1] != "is") {
			got = append(got, strings.Join(append(f[:6:6], f[7:]...), " ")) // all but the seconds
		}
	}
	want := []string{
		"grpo 1 0.250 0.900 8 12", "grpo 2 0.250 0.800 never 12 NOT kept",
		"rloo 1 0.250 0.900 8 12", "rloo 2 0.250 0.800 never 12 NOT kept",
	}
	if !slices.Equal(got, want) || l.Learns || !strings.Contains(out.String(), "rloo is the quickstart with algo.adv_estimator=rloo") {
		t.Errorf("got %q, want %q\n%s", got, want, &out)
	}
	args, err := os.ReadFile(filepath.Join(dir, "rloo_seed_2", "quickstart", "args"))
	if want := "--set trainer.test_every=4 --set algo.adv_estimator=rloo"; err != nil || !strings.Contains(string(args), want) {
		t.Errorf("got the arguments %q (error %v), want %q among them", args, err, want)
	}
	if _, err := measureMethods(t.Context(), program, dir, two, 1, 1, t.Output()); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("training again into the same folder: got error %v, want \"already exists\"", err)
	}
}

func TestMethodsJudge(t *testing.T) {
	good := MethodRun{Run: Run{Before: 0.2, After: 0.9}}
	for name, c := range map[string]struct {
		runs   []MethodRun
		learns bool
	}{
		"all well":                     {[]MethodRun{good, good}, true},
		"one below the bound":          {[]MethodRun{good, {Run: Run{Before: 0.2, After: 0.89}}}, false},
		"one too good before training": {[]MethodRun{good, {Run: Run{Before: 0.36, After: 1}}}, false},
		"none":                         {nil, false},
	} {
		l := Methods{Runs: c.runs}
		if l.judge(); l.Learns != c.learns {
			t.Errorf("%s: got learns %t, want %t", name, l.Learns, c.learns)
		}
	}
}
