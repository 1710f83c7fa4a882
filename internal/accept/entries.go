package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/correction"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/configs/vocabulary"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
	"github.com/openmanus/openmanus/reward"
)

// schema contains every configuration key of this program.
var schema = configs.New(vocabulary.New())

// entrySteps is the number of training steps for every entry of a registry.
const entrySteps = 10

// entryBase shortens the quickstart to ten steps with fewer episodes and no validation. A
// step has two optimiser steps, so that the ratios of the second one differ from 1.
var entryBase = []string{
	fmt.Sprintf("trainer.total_steps=%d", entrySteps), fmt.Sprintf("model.fresh.walks=%d", walksPerStep*entrySteps),
	"trainer.test_every=0", "trainer.val_before_train=false", "trainer.save_every=0",
	"rollout.group_size=6", "actor.mini_batch_size=30", "actor.micro_batch_size=15",
}

// entrySettings has the settings that an entry needs in addition to its name.
var entrySettings = map[string][]string{
	"gae":        {"critic.mini_batch_size=30", "critic.micro_batch_size=15", "critic.optim.lr=5e-4", "trainer.critic_warmup=2"},
	"gigpo":      {"algo.gamma=0.95"},
	"dro":        {"actor.dro_beta=0.1"},
	"format":     {`reward.components.format.patterns=["Thought:","Action:"]`},
	"length":     {"reward.components.length.max_length=100"},
	"overlong":   {"reward.components.overlong.max_length=200", "reward.components.overlong.overlong_buffer=100"},
	"discounted": {"reward.gamma=0.99"},
}

// entryTruths has ground truths for the score functions that need one. The maze
// defines none, so every reply is wrong; the trial shows that the function is called
// and that training continues.
var entryTruths = map[string]string{
	"qa_em": "move right", "subem": "move right", "f1": "move right", "bleu": "move right", "bleu_addone": "move right",
	"gsm8k": "8", "math": `\frac{1}{2}`, "multiply": "56",
	"countdown": `{"target": 24, "numbers": [4, 6, 1]}`,
}

// entryFormats are all prompt formats except react (all other trials use it) and
// the formats that call functions (the maze has no functions).
var entryFormats = slices.DeleteFunc(agent.Formats.Names(), func(name string) bool {
	return name == env.FormatReact || name == env.FormatToolCall || action.Format(name).Calls()
})

// trial is a method and, if its score function needs one, the ground truth of every
// task.
type trial struct {
	method
	truth string
}

// entryTrials returns trials that together use every entry of every registry of
// training. A trial combines entries of registries that do not interact: the i-th
// of each.
func entryTrials() []trial {
	var trials []trial
	add := func(name string, sets ...[]string) {
		trials = append(trials, trial{method: method{name, slices.Concat(sets...)}})
	}
	one := func(key, value string) []string { return append([]string{key + "=" + value}, entrySettings[value]...) }

	policies := slices.DeleteFunc(loss.Policies.Names(), func(name string) bool { return name == loss.Bypass })
	estimators := advantage.Estimators.Names()
	for i := range max(len(estimators), len(policies)) {
		e, p := estimators[i%len(estimators)], policies[i%len(policies)]
		sets := one("actor.policy_loss", p)
		if policy, _ := loss.Policies.Lookup(p); policy.Agg != "" {
			sets = append(sets, "actor.loss_agg="+policy.Agg)
		}
		add("estimator "+e+", loss "+p, one("algo.adv_estimator", e), sets)
	}
	aggregations, signals, allocations := loss.Aggregations.Names(), reward.Signals.Names(), reward.Allocations.Names()
	var kls []string
	for _, name := range kl.Estimators.Names() {
		kls = append(kls, name, name+"+")
	}
	for i, name := range append(kls, kl.Full) {
		agg, allocation := aggregations[i%len(aggregations)], allocations[i%len(allocations)]
		add("KL loss "+name+", "+agg+", allocation "+allocation,
			[]string{"actor.use_kl_loss=true", "actor.kl_loss_coef=0.01", "actor.kl_loss_type=" + name, "actor.loss_agg=" + agg}, one("reward.allocation", allocation))
	}
	reweightings, controllers := advantage.Reweightings.Names(), []string{kl.Fixed, kl.Adaptive}
	for i, name := range kl.Estimators.Names() {
		ctrl, again := controllers[i%len(controllers)], reweightings[i%len(reweightings)]
		add("KL in the reward "+name+", "+ctrl+", PF-PPO "+again,
			[]string{"algo.use_kl_in_reward=true", "algo.kl_coef=0.001", "algo.kl_penalty=" + name, "algo.kl_ctrl=" + ctrl, "algo.pf_ppo=" + again})
	}
	for _, name := range reward.Functions.Names() {
		if name == "goal" {
			continue // the function goal is part of every other trial of a score function
		}
		weight := "0.5"
		if name == "length" { // the function length returns the distance to the allowed lengths, which a negative weight penalises
			weight = "-0.01"
		}
		add("reward "+name+" and goal", []string{"reward.components.goal.weight=1"}, []string{"reward.components." + name + ".weight=" + weight}, entrySettings[name])
		trials[len(trials)-1].truth = entryTruths[name]
	}
	for _, name := range signals {
		if name != "last" && name != "env_score" { // the quickstart itself uses the signal last; env_score needs a server with scores, which the maze lacks
			add("signal "+name, one("reward.signal", name))
		}
	}
	for _, name := range entryFormats {
		add("prompt format "+name, one("env.format", name))
	}
	const at = "algo.rollout_correction."
	for _, level := range []string{correction.Token, correction.Sequence} {
		add("correction by weights, "+level, one(at+"rollout_is", level), []string{at + "rollout_is_batch_normalize=true"})
	}
	add("gigpo by similarity", one("algo.adv_estimator", "gigpo"), []string{"algo.gigpo_similarity_thresh=0.9"})
	add("correction by IcePop", one(at+"rollout_is", correction.Token), []string{at + "rollout_is_threshold=5", at + "rollout_is_threshold_lower=0.5"})
	add("correction by rejection", []string{at + `rollout_rs=["token_k1","seq_mean_k3","seq_max_k2"]`, at + `rollout_rs_threshold=["0.5_2","1","1"]`})
	add("loss "+loss.Bypass+", ppo_clip", []string{at + "bypass_mode=true"})
	add("loss "+loss.Bypass+", reinforce", []string{at + "bypass_mode=true", at + "loss_type=reinforce", at + "rollout_is=sequence"})
	add("dynamic sampling", []string{"algo.filter_groups=true", "algo.max_gen_batches=2"})
	add("shared critic", []string{"algo.adv_estimator=gae", "critic.shared=true", "critic.mini_batch_size=30", "critic.micro_batch_size=15", "trainer.critic_warmup=2"})
	add("agentevol", []string{"algo.name=agentevol", "reward.turn_penalty=0"})
	return trials
}

// entriesNamed returns the trials whose names contain one of the words, or all
// trials if there are no words.
func entriesNamed(words []string) ([]trial, error) {
	all := entryTrials()
	if len(words) == 0 {
		return all, nil
	}
	var out []trial
	for _, t := range all {
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(t.name, w) }) {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no entry's name contains %s", strings.Join(words, " or "))
	}
	return out, nil
}

// Entries is the result for all entries.
type Entries struct {
	Runs   []EntryRun `json:"runs"`
	Trains bool       `json:"trains"`
}

// EntryRun is the result of one trial.
type EntryRun struct {
	Entries   string   `json:"entries"`
	Steps     int      `json:"steps"`
	Updates   int      `json:"updates"` // steps with a gradient
	Values    int      `json:"values"`  // numbers in metrics.jsonl
	NonFinite []string `json:"non_finite,omitempty"`
	First     float64  `json:"success_first"` // success rate of the first step
	Last      float64  `json:"success_last"`
	Seconds   float64  `json:"seconds"`
	Fault     string   `json:"fault,omitempty"` // the error that ended the trial
	Changed   []string `json:"settings"`        // settings that differ from the quickstart's, except those of entryBase
	Truth     string   `json:"ground_truth,omitempty"`
}

func (r *EntryRun) trains() bool {
	return r.Fault == "" && r.Steps == entrySteps && r.Updates > 0 && len(r.NonFinite) == 0
}

func runEntries(ctx context.Context, o *options, words []string, log io.Writer) (result, error) {
	chosen, err := entriesNamed(words)
	if err != nil {
		return nil, err
	}
	return inFolder(o.keep, func(dir string) (result, error) { return measureEntries(ctx, o.program, dir, chosen, o.jobs, log) })
}

// measureEntries runs all trials, several at a time, in folders under dir. A trial
// that fails is reported and does not end the others.
func measureEntries(ctx context.Context, program, dir string, trials []trial, jobs int, log io.Writer) (*Entries, error) {
	e := &Entries{Runs: make([]EntryRun, len(trials))}
	var mu sync.Mutex // guards log
	err := several(ctx, len(trials), jobs, func(ctx context.Context, i, threads int) error {
		r := &e.Runs[i]
		*r = EntryRun{Entries: trials[i].name, Changed: trials[i].sets, Truth: trials[i].truth}
		if err := r.run(ctx, program, filepath.Join(dir, fmt.Sprintf("entry_%d", i+1)), threads); err != nil {
			if ctx.Err() != nil {
				return err
			}
			r.Fault = err.Error()
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(log, "%s: %s\n", r.Entries, r.summary())
		return nil
	})
	if err != nil {
		return nil, err
	}
	e.Trains = len(e.Runs) > 0 && !slices.ContainsFunc(e.Runs, func(r EntryRun) bool { return !r.trains() })
	return e, nil
}

func (r *EntryRun) summary() string {
	if r.Fault != "" {
		return "NOT kept: " + r.Fault
	}
	text := fmt.Sprintf("%d steps, %d updates, %d values, success %.3f to %.3f, %.0f s", r.Steps, r.Updates, r.Values, r.First, r.Last, r.Seconds)
	if len(r.NonFinite) > 0 {
		text += ", NOT finite: " + strings.Join(r.NonFinite, ", ")
	}
	return text
}

func (r *EntryRun) run(ctx context.Context, program, out string, threads int) error {
	sets := slices.Concat(entryBase, r.Changed)
	if r.Truth != "" {
		tasks := out + "_tasks.jsonl"
		if err := writeTruth(tasks, r.Truth); err != nil {
			return err
		}
		sets = append(sets, fmt.Sprintf("env.tasks=[%q]", tasks), "env.val_tasks=[]")
	}
	metrics, seconds, err := trainSeed(ctx, program, out, 1, threads, sets)
	if err != nil {
		return err
	}
	r.Seconds = seconds
	return r.readMetrics(metrics)
}

// writeTruth writes a file with the quickstart's training tasks and the ground
// truth.
func writeTruth(path, truth string) error {
	text, err := configs.Preset("quickstart")
	if err != nil {
		return err
	}
	c, err := schema.Load("quickstart.toml", text, nil)
	if err != nil {
		return err
	}
	cells, err := configs.ParseIndices(strings.Join(c.Env[0].Tasks, ","))
	if err != nil {
		return err
	}
	var rows []byte
	for _, cell := range cells {
		row, err := json.Marshal(map[string]any{
			"item_id": fmt.Sprintf("maze_%d", cell), "data_source": "maze", "reward_model": map[string]string{"ground_truth": truth},
		})
		if err != nil {
			return err
		}
		rows = append(append(rows, row...), '\n')
	}
	return os.WriteFile(path, rows, 0o644)
}

// readMetrics fills r from the metrics of its run.
func (r *EntryRun) readMetrics(metrics string) error {
	if _, err := os.Stat(metrics); err != nil {
		return err
	}
	return track.Read(metrics, func(l track.Line) error {
		m := l.Metrics
		for name, x := range m {
			r.Values++
			if (math.IsNaN(x) || math.IsInf(x, 0)) && !slices.Contains(r.NonFinite, name) {
				r.NonFinite = append(r.NonFinite, name)
			}
		}
		slices.Sort(r.NonFinite)
		success, ok := m["episode/success_rate"]
		if l.Step == 0 || !ok {
			return nil
		}
		if r.Steps++; r.Steps == 1 {
			r.First = success
		}
		r.Last = success
		if m[track.ActorGradNorm] > 0 {
			r.Updates++
		}
		return nil
	})
}

func (e *Entries) kept() bool { return e.Trains }

func (e *Entries) print(w io.Writer) error {
	fmt.Fprintf(w, "entries: the quickstart's maze for %d steps under every entry of the registries\n", entrySteps)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "  entries\tupdates\tvalues\tnot finite\tsuccess\tseconds\t")
	for _, r := range e.Runs {
		word := ""
		if !r.trains() {
			word = "NOT kept"
		}
		fmt.Fprintf(table, "  %s\t%d\t%d\t%d\t%.3f to %.3f\t%.0f\t%s\n", r.Entries, r.Updates, r.Values, len(r.NonFinite), r.First, r.Last, r.Seconds, word)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "  each %d steps with finite metrics: %s\n", entrySteps, verdict(e.Trains))
	return err
}
