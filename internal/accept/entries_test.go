package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
	"github.com/openmanus/openmanus/reward"
)

// TestEntryTrials checks that every trial is a valid configuration of the quickstart's
// task, and that together the trials use every entry.
func TestEntryTrials(t *testing.T) {
	text, err := configs.Preset("quickstart")
	if err != nil {
		t.Fatal(err)
	}
	chosen := map[string]bool{}
	for _, trial := range entryTrials() {
		sets := slices.Concat(entryBase, trial.sets)
		if _, err := schema.Load("quickstart.toml", text, sets); err != nil {
			t.Errorf("%s: %v", trial.name, err)
		}
		for _, set := range trial.sets {
			key, value, _ := strings.Cut(set, "=")
			if section, _, _ := strings.Cut(key, "."); section == "env" && key != "env.format" || section == "model" || section == "rollout" {
				t.Errorf("%s: %s changes the task of the quickstart", trial.name, set)
			}
			if name, ok := strings.CutPrefix(key, "reward.components."); ok {
				value, _, _ = strings.Cut(name, ".")
				key = "reward.components"
			}
			chosen[key+"="+value] = true
		}
	}
	for key, names := range map[string][]string{
		"algo.adv_estimator": advantage.Estimators.Names(),
		"actor.policy_loss":  slices.DeleteFunc(loss.Policies.Names(), func(name string) bool { return name == loss.Bypass }),
		"actor.loss_agg":     loss.Aggregations.Names(),
		"actor.kl_loss_type": append(kl.Estimators.Names(), kl.Full),
		"algo.kl_penalty":    kl.Estimators.Names(),
		"algo.kl_ctrl":       {kl.Fixed, kl.Adaptive},
		"algo.pf_ppo":        advantage.Reweightings.Names(),
		"reward.allocation":  reward.Allocations.Names(),
		"reward.signal":      {"sum", "max"},
		"reward.components":  reward.Functions.Names(),
		"env.format": slices.DeleteFunc(agent.Formats.Names(), func(name string) bool {
			return name == env.FormatReact || action.Format(name).Calls() || name == env.FormatToolCall
		}),
		"algo.name":                           {"agentevol"},
		"algo.rollout_correction.bypass_mode": {"true"},
	} {
		for _, name := range names {
			if !chosen[key+"="+name] {
				t.Errorf("no trial has %s = %s", key, name)
			}
		}
	}
	if one, err := entriesNamed([]string{"agentevol"}); err != nil || len(one) != 1 {
		t.Errorf("got trials %v for the word agentevol (error %v), want one", one, err)
	}
	if _, err := entriesNamed([]string{"nothing"}); err == nil {
		t.Error("no error for a word that is in no name")
	}
}

// TestWriteTruth checks that the task file has the quickstart's training cells, and that every score function that needs
// a ground truth accepts the one in entryTruths.
func TestWriteTruth(t *testing.T) {
	for _, name := range reward.Functions.Names() {
		f, err := reward.Functions.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		truth := entryTruths[name]
		if f.NeedsTruth != (truth != "") {
			t.Errorf("%s: entryTruths has %q, but NeedsTruth is %t", name, truth, f.NeedsTruth)
		}
		if truth == "" {
			continue
		}
		path := filepath.Join(t.TempDir(), "tasks.jsonl")
		if err := writeTruth(path, truth); err != nil {
			t.Fatal(err)
		}
		tasks, err := table.LoadTasks(t.Context(), path, table.LoadOptions{Env: "maze"})
		if err != nil || len(tasks) != 10 || tasks[0].Index != 1 || tasks[9].Index != 24 {
			t.Fatalf("got tasks %v (error %v), want 10 from cell 1 to cell 24", tasks, err)
		}
		scorer, err := reward.Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		sample := reward.Sample{Source: tasks[0].Env, GroundTruth: tasks[0].GroundTruth, Response: "Thought: I walk.\nAction: move right"}
		if _, err := scorer.Score(t.Context(), []reward.Sample{sample}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMeasureEntries checks that a trial passes only if all its steps are recorded, at least one has a gradient, and every
// number is finite. A failed trial does not end the others.
func TestMeasureEntries(t *testing.T) {
	program := filepath.Join(t.TempDir(), "openmanus")
	const script = `#!/bin/sh
for a; do
  case $a in
  trainer.output_dir=*) out=${a#*=}/quickstart ;;
  x.kind=*) kind=${a#*=} ;;
  esac
done
if [ $kind = dies ]; then echo "no such thing" >&2; exit 3; fi
mkdir -p "$out"
n=10; norm=0.5; loss=1
case $kind in short) n=9 ;; idle) norm=0 ;; nan) loss=null ;; esac
i=0
echo '{"step":0,"read/loss":2}' >"$out/metrics.jsonl"
while [ $i -lt $n ]; do
  i=$((i + 1))
  echo '{"step":'$i',"episode/success_rate":0.'$((i - 1))',"actor/grad_norm":'$norm',"actor/pg_loss":'$loss'}' >>"$out/metrics.jsonl"
done
`
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	kinds := []string{"well", "short", "idle", "nan", "dies"}
	var trials []trial
	for _, kind := range kinds {
		trials = append(trials, trial{method: method{kind, []string{"x.kind=" + kind}}})
	}
	e, err := measureEntries(t.Context(), program, t.TempDir(), trials, 2, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range e.Runs {
		if r.Entries != kinds[i] || r.trains() != (r.Entries == "well") {
			t.Errorf("%s: got trains %t for %+v", kinds[i], r.trains(), r)
		}
	}
	if r := e.Runs[0]; r.Updates != 10 || r.Values != 31 || r.First != 0 || r.Last != .9 {
		t.Errorf("well: %+v", r)
	}
	if r := e.Runs[3]; !slices.Equal(r.NonFinite, []string{"actor/pg_loss"}) {
		t.Errorf("nan: %+v", r)
	}
	if r := e.Runs[4]; !strings.Contains(r.Fault, "no such thing") {
		t.Errorf("dies: %+v", r)
	}
	var out strings.Builder
	if err := e.print(&out); err != nil || e.Trains || strings.Count(out.String(), "NOT kept") != 5 {
		t.Errorf("%v, trains %t\n%s", err, e.Trains, &out)
	}
	e, err = measureEntries(t.Context(), program, t.TempDir(), trials[:1], 1, t.Output())
	if err != nil || !e.Trains {
		t.Errorf("a valid trial: got trains %t (error %v), want true", e.Trains, err)
	}
}
