package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/cli"
	clirun "github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/torch"
)

// realProgram is an environment variable that makes the test binary run as openmanus.
const realProgram = "ACCEPT_TEST_PROGRAM"

func realOpenmanus() {
	s := cli.NewState()
	if code, ok := cli.Watchdog(s); ok {
		os.Exit(code)
	}
	os.Exit(cli.Main(s))
}

// TestLearnsTinyModel trains a model of one layer for one step by each lesson, and checks the report, the pictures, and that
// a second call reads the results.
func TestLearnsTinyModel(t *testing.T) {
	if testing.Short() {
		t.Skip("trains")
	}
	t.Setenv(realProgram, "1")
	tiny, dir := tinyModel(t), t.TempDir()
	small := []string{
		"model.compute_dtype=float32", "trainer.total_steps=1", "trainer.test_every=1", "rollout.group_size=2", "data.train_batch_size=2", "data.val_limit=3",
		"sft.total_steps=1", "sft.max_length=4096", "sft.truncation=drop", "rollout.max_new_tokens=4", "rollout.max_context_tokens=4096", "data.max_prompt_tokens=4000", "rollout.val.group_size=1", "rollout.max_sequences=8",
	}
	for _, l := range lessons {
		t.Run(l.name, func(t *testing.T) {
			o := &options{seeds: 1, jobs: 1, sets: slices.Clone(small)}
			if l.base != "arithmetic" { // a prompt task has one turn
				o.sets = append(o.sets, "env."+l.base+".max_turns=2")
			}
			r, err := measureLearns(t.Context(), os.Args[0], tiny, dir, []lesson{l}, o, t.Output())
			if err != nil {
				t.Fatal(err)
			}
			got := r.Runs[0]
			if len(got.Points) != 2 || got.before().Step != 0 || got.after().Step != 1 || got.after().Episodes != 3 || !(got.Minutes > 0) {
				t.Errorf("got %+v, want validations of 3 episodes before step 1 and after it", got)
			}
			if r.kept() {
				t.Error("3 episodes are enough for the verdict")
			}
			again, err := measureLearns(t.Context(), "/bin/false", tiny, dir, []lesson{l}, o, t.Output())
			if err != nil || !slices.Equal(again.Runs[0].Points, got.Points) || again.Runs[0].Minutes != got.Minutes {
				t.Errorf("the second call returns %+v (%v), want the result of the first", again, err)
			}
			o.sets = append(o.sets, "actor.optim.lr=1e-3")
			if _, err := measureLearns(t.Context(), "/bin/false", tiny, dir, []lesson{l}, o, t.Output()); err == nil || !strings.Contains(err.Error(), "other settings") {
				t.Errorf("other settings: got error %v", err)
			}
		})
	}
}

// tinyModel writes a model of one layer.
func tinyModel(t *testing.T) string {
	t.Helper()
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	var b *model.Bundle
	b, err = clirun.FreshModel(t.Context(), th, configs.Fresh{
		Layers: 1, HiddenSize: 32, IntermediateSize: 64, Heads: 2, KVHeads: 1, Vocabulary: "bytes",
	}, 4096, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dir := t.TempDir()
	if err := b.Save(t.Context(), dir, torch.Float32); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestMeasureLearns checks the report of runs whose metrics a script writes.
func TestMeasureLearns(t *testing.T) {
	program := filepath.Join(t.TempDir(), "openmanus")
	// The success rates after training depend on the seed: only that of seed 1 is enough. Seed 3 is interrupted once.
	const script = `#!/bin/sh
for a; do
  case $a in
  trainer.seed=*) seed=${a#*=} ;;
  esac
done
[ -f arithmetic.toml ] && [ -f val.jsonl ] || exit 1
if [ $seed = 3 ] && [ ! -f once ]; then touch once; echo no memory; exit 6; fi
mkdir -p runs/arithmetic
{
  echo '{"step":0,"val/arithmetic/success_rate":0.2,"val/arithmetic/episodes":200}'
  echo '{"step":10,"val/arithmetic/success_rate":0.25,"val/arithmetic/episodes":200}'
  echo '{"step":20,"val/arithmetic/success_rate":0.'$((4 - seed))',"val/arithmetic/episodes":200}'
} >runs/arithmetic/metrics.jsonl
`
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	model, dir := filepath.Join(t.TempDir(), "m.gguf"), t.TempDir()
	if err := os.WriteFile(model, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	o := &options{program: program, model: model, keep: filepath.Join(dir, "runs"), curves: filepath.Join(dir, "pictures"), seeds: 3, jobs: 1}
	if _, err := runLearns(t.Context(), o, []string{"arithmetic"}, t.Output()); err == nil || !strings.Contains(err.Error(), "no memory") {
		t.Fatalf("got error %v, want the output of the program", err)
	}
	l, err := runLearns(t.Context(), o, []string{"arithmetic"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := l.print(&out); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		if f := strings.Fields(line); len(f) > 12 && f[0] == "arithmetic" {
			got = append(got, strings.Join(f, " "))
		}
	}
	want := []string{ // the intervals are Wilson's for 40, 60, 40 and 20 of 200
		"arithmetic 1 0.200 0.150 - 0.261 0.300 0.241 - 0.367 200 20 0 NOT kept",
		"arithmetic 2 0.200 0.150 - 0.261 0.200 0.150 - 0.261 200 20 0 NOT kept",
		"arithmetic 3 0.200 0.150 - 0.261 0.100 0.066 - 0.149 200 20 0 since it was resumed NOT kept",
	}
	if !slices.Equal(got, want) || l.kept() {
		t.Errorf("got %q, want %q\n%s", got, want, &out)
	}
	picture, err := os.Open(filepath.Join(dir, "pictures", "arithmetic.svg"))
	if err != nil {
		t.Fatal(err)
	}
	defer picture.Close()
	circles := 0
	for d := xml.NewDecoder(picture); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "circle" {
			circles++
		}
	}
	if circles != 9 {
		t.Errorf("the picture has %d validations, want 9", circles)
	}
}

func TestLearnsJudge(t *testing.T) {
	run := func(before, after Point) LessonRun { return LessonRun{Points: []Point{before, after}} }
	low, high := Point{Low: 0.1, High: 0.2, Episodes: 200}, Point{Low: 0.25, High: 0.4, Episodes: 200}
	few, touching := high, high
	few.Episodes, touching.Low = 199, 0.2
	for name, c := range map[string]struct {
		runs   []LessonRun
		learns bool
	}{
		"all well":                   {[]LessonRun{run(low, high), run(low, high)}, true},
		"one without a change":       {[]LessonRun{run(low, high), run(low, low)}, false},
		"one worse":                  {[]LessonRun{run(high, low)}, false},
		"intervals that touch":       {[]LessonRun{run(low, touching)}, false},
		"too few episodes":           {[]LessonRun{run(low, few)}, false},
		"too few episodes before RL": {[]LessonRun{run(Point{High: 0.1, Episodes: 30}, high)}, false},
		"none":                       {nil, false},
	} {
		l := Learns{Runs: c.runs}
		if l.judge(); l.kept() != c.learns {
			t.Errorf("%s: got learns %t, want %t", name, l.kept(), c.learns)
		}
	}
}

func TestPoints(t *testing.T) {
	for name, text := range map[string]string{
		"none":               "",
		"one":                `{"step":0,"val/maze/success_rate":0.25,"val/maze/episodes":8}` + "\n",
		"none before RL":     `{"step":1,"val/maze/success_rate":0.25,"val/maze/episodes":8}` + "\n" + `{"step":2,"val/maze/success_rate":0.25,"val/maze/episodes":8}` + "\n",
		"other environments": `{"step":0,"val/wordle/success_rate":0.25}` + "\n" + `{"step":2,"val/wordle/success_rate":0.25}` + "\n",
	} {
		path := filepath.Join(t.TempDir(), "metrics.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := points(path, "maze"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
