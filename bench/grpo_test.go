package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/configs/vocabulary"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/torch"
)

// TestGRPOConfig checks that our configuration is valid and has the sizes that the peer receives.
func TestGRPOConfig(t *testing.T) {
	for _, w := range append(grpoTrials(false), grpoTrials(true)...) {
		c, err := configs.New(vocabulary.New()).Load("grpo.toml", []byte(grpoConfig("some model.gguf", w, 4)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !c.Rollout.IgnoreEOS || c.Rollout.MaxNewTokens != grpoNew || c.Rollout.GroupSize != w.Group || c.Data.TrainBatchSize != w.Tasks || c.Model.LoRARank != w.Rank || c.Model.ComputeDtype != w.Type.String() ||
			c.Model.GradientCheckpointing || c.UsesReference() || !c.Actor.CalculateEntropy || c.Actor.MiniBatchSize != 0 || c.Trainer.TotalSteps != 4 {
			t.Errorf("%s: wrong sizes in the configuration %+v", w.name(), c)
		}
	}
}

// The sizes of grpoTrials(false).
const (
	grpoTasks = 2
	grpoGroup = 4
)

// grpoPrograms writes programs that report the steps of both sides without training. The parameters sampled
// and theirs are the numbers of new tokens that our program and TRL's program report.
func grpoPrograms(t *testing.T, sampled, theirs int) options {
	t.Helper()
	dir := t.TempDir()
	var episodes []*data.Episode
	for task := range grpoTasks {
		for sample := range grpoGroup {
			n := 2 + task
			tokens, mask := make([]int32, n+1), make([]uint8, n+1)
			for i := range n {
				tokens[i] = int32(10*task + i)
			}
			tokens[n], mask[n] = int32(100+sample), 1
			episodes = append(episodes, &data.Episode{
				Task: data.Task{ID: fmt.Sprintf("maze_%d", task), Env: "maze", Index: task}, UID: fmt.Sprint(task), Sample: sample,
				Outcome: data.TurnLimit, Tokens: tokens, Mask: mask, LogProbs: make([]float32, n+1), Turns: []data.Turn{{Start: n, End: n + 1}},
			})
		}
	}
	if err := dump.WriteFile(filepath.Join(dir, "step_1.jsonl"), dump.Header{}, episodes); err != nil {
		t.Fatal(err)
	}
	var metrics strings.Builder
	prompts := grpoGroup * (2 + 3)
	for step, seconds := range []float64{0, 9, 3, 1} {
		if step > 0 {
			fmt.Fprintf(&metrics, `{"step":%d,"timing_s/step":%g,"actor/updated_rows":%d,"rollout/sampled_tokens":%d,"rollout/tokens":%d}`+"\n",
				step, seconds, grpoTasks*grpoGroup, sampled, sampled+prompts)
		}
	}
	files := map[string]string{
		"metrics.jsonl": metrics.String(),
		"answer.json":   fmt.Sprintf(`{"trl":"1","transformers":"5","torch":"2","seconds":[9,4,4],"prompt_tokens":%d,"new_tokens":%d,"peak_bytes":4096}`, prompts, theirs),
		"ours": `#!/bin/sh
here=$(dirname "$0")
for a; do case $a in trainer.output_dir=*) out=${a#*=}/grpo ;; esac; done
echo ours >>"$here/turns"
mkdir "$out" "$out/rollouts" && cp "$here/metrics.jsonl" "$out" && cp "$here/step_1.jsonl" "$out/rollouts"
`,
		"theirs": `#!/bin/sh
cd "$(dirname "$0")" && cp "$2" asked.json && echo theirs >>turns && cat answer.json
`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return options{
		model: "m.gguf", program: filepath.Join(dir, "ours"), python: filepath.Join(dir, "theirs"), trlScript: "script.py", threads: 2, rounds: 2,
	}
}

func TestMeasureGRPO(t *testing.T) {
	const all = grpoTasks * grpoGroup * grpoNew
	o := grpoPrograms(t, all, all)
	g, err := measureGRPO(t.Context(), o, grpoTrials(false), t.TempDir(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Trials) != 2 || g.Trials[0].Name != "2 x 4, all weights, float32" || g.Trials[1].Name != "2 x 4, LoRA, rank 16, float32" {
		t.Fatalf("%+v", g)
	}
	for _, trial := range g.Trials { // the first step of three does not count
		if trial.Ours.Seconds != 2 || trial.Peer.Seconds != 4 || trial.Time != 0.5 || !(trial.Memory > 0) || trial.Ours.PromptTokens != 20 ||
			trial.Peer.PeakBytes != 4096 || len(trial.Ours.Steps) != 2*grpoSteps || len(trial.Ours.Turns) != 2 || len(trial.Peer.Turns) != 2 {
			t.Errorf("%+v, peer %+v", trial, trial.Peer)
		}
	}
	turns, err := os.ReadFile(filepath.Join(filepath.Dir(o.python), "turns"))
	if want := strings.Repeat("ours\ntheirs\ntheirs\nours\n", 2); err != nil || string(turns) != want {
		t.Errorf("the turns were %q (%v), want %q", turns, err, want)
	}
	var asked TRLJob
	text, err := os.ReadFile(filepath.Join(filepath.Dir(o.python), "asked.json"))
	if err == nil {
		err = json.Unmarshal(text, &asked)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(asked.Prompts, [][]int32{{0, 1}, {10, 11, 12}}, slices.Equal[[]int32]) || asked.LoRARank != grpoRank || asked.Steps != 3 {
		t.Errorf("TRL's job is %s", text)
	}
	var out strings.Builder
	if err := g.print(&out, 2); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"against TRL 1 on transformers 5 and torch 2", "2.00 s (2.00-2.00)", "4.00 s (4.00-4.00)", "0.50", "2 x 4, LoRA, rank 16"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}

	o.python = ""
	if g, err = measureGRPO(t.Context(), o, grpoTrials(false), t.TempDir(), t.Output()); err != nil || g.Versions != nil || g.Trials[0].Peer != nil {
		t.Errorf("without a peer: got %+v, %v", g, err)
	}
}

// TestMeasureGRPORefuses checks that it is an error if the two sides did different work.
func TestMeasureGRPORefuses(t *testing.T) {
	const all = grpoTasks * grpoGroup * grpoNew
	for want, o := range map[string]options{
		"the work differs": grpoPrograms(t, all, all-1),
		"step 1 sampled 7": grpoPrograms(t, 7, 7),
		"no such file":     {program: "/no/such/file", model: "m", rounds: 1},
	} {
		if _, err := measureGRPO(t.Context(), o, grpoTrials(false), t.TempDir(), t.Output()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestChosenTrials(t *testing.T) {
	for _, tt := range []struct {
		o    options
		want int // trials; 0: an error
	}{
		{options{}, 2},
		{options{full: true}, 2},
		{options{full: true, typed: true, dtype: torch.Float32}, 1},
		{options{full: true, typed: true, dtype: torch.BFloat16}, 1},
		{options{typed: true, dtype: torch.Float32}, 2},
		{options{typed: true, dtype: torch.BFloat16}, 0},
	} {
		trials, err := chosenTrials(tt.o)
		if len(trials) != tt.want || (err != nil) != (tt.want == 0) {
			t.Errorf("full %v, typed %v, %v: got %d trials and the error %v, want %d", tt.o.full, tt.o.typed, tt.o.dtype, len(trials), err, tt.want)
		}
		for _, w := range trials {
			if tt.o.typed && w.Type != tt.o.dtype {
				t.Errorf("%s is chosen for %v", w.name(), tt.o.dtype)
			}
		}
	}
}
