package algo

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/data"
)

func TestEvolKeeps(t *testing.T) {
	episode := func(task string, sample int, outcome data.Outcome, said uint8) *data.Episode {
		return &data.Episode{Task: data.Task{ID: task, Env: "maze"}, Sample: sample, Outcome: outcome, Mask: []uint8{0, said}}
	}
	episodes := []*data.Episode{
		episode("a", 0, data.Done, 1), episode("a", 1, data.Success, 1), episode("a", 2, data.Success, 1), episode("a", 3, data.Success, 1),
		episode("b", 0, data.Success, 0), episode("b", 1, data.EnvError, 1), episode("b", 2, data.TurnLimit, 1),
		episode("c", 0, data.Success, 1),
	}
	for perTask, want := range map[int]string{0: "a1 a2 a3 c0", 1: "a1 c0", 2: "a1 a2 c0"} {
		got := ""
		for _, ep := range (&Evol{PerTask: perTask}).keep(episodes) {
			got += fmt.Sprintf(" %s%d", ep.Task.ID, ep.Sample)
		}
		if got != " "+want {
			t.Errorf("with at most %d episodes per task keep returns%s, want %s", perTask, got, want)
		}
	}
	m := Metrics{}
	keptMetrics(m, []Env{{Name: "maze", Weight: 1}, {Name: "wordle", Weight: 1}, {Name: "textcraft"}}, episodes, episodes[1:3])
	want := Metrics{
		"agentevol/overall/kept": 2, "agentevol/overall/kept_share": 2. / 7, "agentevol/maze/kept": 2, "agentevol/maze/kept_share": 2. / 7,
		"agentevol/wordle/kept": 0, // an environment without a trainable episode has no share
	}
	if d := cmp.Diff(want, m); d != "" {
		t.Errorf("metrics (-want +got):\n%s", d)
	}
}

// TestEvolReplays checks that a step replays all trajectories or the configured number of them. A
// step replays a trajectory at most once and with all its rows. Different steps replay different trajectories.
func TestEvolReplays(t *testing.T) {
	o := &Evol{Original: []data.Row{{UID: "o1"}, {UID: "o2"}}}
	var earlier []data.Row
	for i := range 6 {
		for c := range 2 {
			earlier = append(earlier, data.Row{UID: "e", Sample: i, Context: c, Contexts: 2})
		}
	}
	names := func(replay int, seed uint64) []string {
		o.Replay = replay
		rows, err := o.replay(earlier, seed)
		must(t, err)
		spans, err := data.EpisodeSpans(rows)
		must(t, err)
		var out []string
		for _, s := range spans {
			out = append(out, fmt.Sprint(rows[s[0]].UID, rows[s[0]].Sample))
		}
		return out
	}
	all := []string{"o10", "o20", "e0", "e1", "e2", "e3", "e4", "e5"}
	if got := names(-1, 1); !slices.Equal(got, all) {
		t.Errorf("replay = -1 returns %v, want all trajectories in order", got)
	}
	if got := names(0, 1); len(got) != 0 {
		t.Errorf("replay = 0 returns %v, want none", got)
	}
	slices.Sort(all)
	if got := names(99, 1); !slices.Equal(slices.Sorted(slices.Values(got)), all) {
		t.Errorf("replay = 99 returns %v, want every trajectory once", got)
	}
	first, repeated, other := names(4, 1), names(4, 1), names(4, 2)
	if len(slices.Compact(slices.Sorted(slices.Values(first)))) != 4 || !slices.Equal(first, repeated) || slices.Equal(first, other) {
		t.Errorf("replay = 4 returns %v, %v with the same seed and %v with another; want four different trajectories, the same four, and another four", first, repeated, other)
	}
	o.Original = nil
	if rows, err := o.replay(nil, 1); err != nil || len(rows) != 0 {
		t.Errorf("replay without trajectories = %v, %v, want none", rows, err)
	}
}

// TestAgentEvol checks that AgentEvol keeps successful episodes, trains on them together with the
// recorded trajectories and the episodes kept before, and gives the same results after a resume.
func TestAgentEvol(t *testing.T) {
	run := func(killAfter int) *rig {
		r := quick(t, nil)
		r.maze = withRewards(newRig(t).maze, func([]byte) float64 { return 1 }) // every action succeeds
		plain := r.options
		r.options = func(o *Options) {
			recorded := o.WarmStart.Rows
			plain(o)
			o.Method = Evol{PerTask: 2, Replay: -1, Original: recorded}
			o.Policy.MiniBatch, o.Policy.Passes, o.SaveEvery = 2, learner.Passes{Epochs: 2, Shuffle: true}, 1
		}
		r.steps = 3
		if killAfter > 0 {
			r.killAfter(t, killAfter)
		}
		must(t, r.fit(t, t.Context(), t.Context()))
		return r
	}
	undisturbed, resumed := run(0), run(2)
	lines, resumedLines := undisturbed.lines(t), resumed.lines(t)
	stored, sampled := 0, 0
	for step := 1; step <= 3; step++ {
		of, episodes := map[string]int{}, dumped(t, filepath.Join(undisturbed.dir, "rollouts", fmt.Sprintf("step_%d.jsonl", step)))
		for _, ep := range episodes {
			if ep.Outcome == data.Success && of[ep.Task.ID] < 2 {
				of[ep.Task.ID]++
				stored++
				sampled += ep.SampledTokens()
			}
		}
		m := lines[step]
		if m["agentevol/stored"] != float64(stored) || m["agentevol/trajectories"] != float64(stored+2) || m["agentevol/maze/kept_share"] != m["agentevol/maze/kept"]/6 {
			t.Errorf("step %d: %v episodes are stored, %v trajectories learned from, share %v kept, but %d episodes succeeded", step, m["agentevol/stored"], m["agentevol/trajectories"],
				m["agentevol/maze/kept_share"], stored)
		}
		if !(m["agentevol/loss"] > 0) || !(m["actor/grad_norm"] > 0) {
			t.Errorf("step %d: the loss is %v and the gradient norm %v, want positive numbers", step, m["agentevol/loss"], m["actor/grad_norm"])
		}
		for _, name := range []string{"agentevol/loss", "agentevol/stored", "agentevol/trajectories", "actor/grad_norm", "episode/success_rate"} {
			if resumedLines[step][name] != m[name] {
				t.Errorf("step %d: %s is %v, want %v as in an undisturbed run", step, name, resumedLines[step][name], m[name])
			}
		}
	}
	if stored == 0 {
		t.Fatal("no episode succeeded, so the test checks nothing")
	}
	last := filepath.Join(undisturbed.dir, "checkpoints", "step_000003")
	st, err := rundir.ReadState(last)
	must(t, err)
	kept := dumped(t, filepath.Join(last, keptFile))
	n := 0
	for _, ep := range kept {
		n += ep.SampledTokens()
	}
	if len(kept) != stored || n != sampled {
		t.Errorf("the checkpoint has %d episodes with %d sampled tokens, want %d with %d", len(kept), n, stored, sampled)
	}
	older := st
	older.KeptRows = 3
	withoutData := st
	withoutData.Kept++
	for name, c := range map[string]struct {
		st   rundir.State
		dir  string
		want string
	}{
		"the format of an earlier version": {older, last, "earlier version"},
		"a missing file":                   {st, t.TempDir(), keptFile},
		"a missing episode":                {withoutData, last, fmt.Sprint("want ", stored+1)},
	} {
		_, err := New(evolParts(c.dir), evolOptions(Evol{}), &c.st)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func evolParts(dir string) Parts {
	return Parts{Actor: &learner.Actor{}, Checkpoint: dir, Envs: []Env{{Name: "maze", Weight: 1, TrainTasks: mazes(17, 18, 2)}}}
}

func evolOptions(o Evol) Options {
	return Options{
		Loop:    Loop{Steps: 4, Val: rollout.Options{GroupSize: 1}},
		Play:    Play{BatchTasks: 2, Shuffle: true, OrderSeed: 5, Train: rollout.Options{GroupSize: 3}},
		Scoring: Scoring{Signal: "last", Allocation: "last_token"},
		Update:  Update{Estimator: "grpo", Policy: vanillaOptions()},
		Method:  o,
	}
}

func TestEvolRefuses(t *testing.T) {
	for name, change := range map[string]func(o *Options){
		"a critic":        func(o *Options) { o.Critic = criticOptions() },
		"a KL":            func(o *Options) { o.Policy.KLCoef = .1 },
		"filtered groups": func(o *Options) { o.FilterGroups = true },
		"a replay of -2":  func(o *Options) { o.Method = Evol{Replay: -2} },
	} {
		o := evolOptions(Evol{})
		if _, err := New(evolParts(""), o, nil); err != nil {
			t.Fatal(err)
		}
		change(&o)
		if _, err := New(evolParts(""), o, nil); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
