package algo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/algo/correction"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/env/pool"
)

// aheadRig returns a run of several steps without warm start and validations that plays ahead.
func aheadRig(t *testing.T, async, steps int, change func(o *Options)) *rig {
	t.Helper()
	r := quick(t, func(o *Options) {
		o.Steps, o.SaveEvery = steps, 1
		if change != nil {
			change(o)
		}
	})
	r.async = async
	return r
}

// played returns the episodes of a step.
func (r *rig) played(t *testing.T, step int) []*data.Episode {
	t.Helper()
	episodes, err := dump.ReadFile(filepath.Join((&rundir.Folder{Dir: r.dir}).Rollouts(), fmt.Sprintf("step_%d.jsonl", step)))
	must(t, err)
	return episodes
}

// groupsOf returns the uids of the groups of each step.
func (r *rig) groupsOf(t *testing.T, steps int) (uids [][]string) {
	t.Helper()
	for step := 1; step <= steps; step++ {
		var of []string
		for _, ep := range r.played(t, step) {
			if !slices.Contains(of, ep.UID) {
				of = append(of, ep.UID)
			}
		}
		uids = append(uids, of)
	}
	return uids
}

// within fails the test if f does not return true in time.
func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Errorf("%s did not happen in 30 s", what)
	}
}

// TestAheadPlaysDuringTheUpdate holds the update of step 1 until step 2 has been reset and has played a turn, and holds the
// second answer of the server to step 2 until step 1 is done. Step 2 then spans two versions of the weights.
func TestAheadPlaysDuringTheUpdate(t *testing.T) {
	r := aheadRig(t, 1, 2, nil)
	turned, stepped := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	actions := 0
	r.onRequest = func(path string, _ []byte) bool {
		if !strings.HasSuffix(path, "/step") {
			return true
		}
		mu.Lock()
		actions++
		n := actions
		mu.Unlock()
		if n == 2*3*2+1 { // 2 groups of 3 episodes of 2 turns are step 1
			close(turned)
		}
		if n > 2*3*2 {
			within(t, "the update of step 1", stepped)
		}
		return true
	}
	r.onPhase = func(p Phase) {
		if p.Name == "update_actor" && p.Step == 1 {
			within(t, "a turn of step 2", turned)
		}
	}
	r.onStep = func(step int) {
		if step == 1 {
			close(stepped)
		}
	}
	must(t, r.fit(t, t.Context(), t.Context()))
	lines := r.lines(t)
	if m := lines[1]; m["rollout/staleness_max"] != 0 {
		t.Errorf("step 1: the staleness is at most %v, want 0", m["rollout/staleness_max"])
	}
	if m := lines[2]; m["rollout/staleness_max"] != 1 || m["rollout/staleness_mean"] <= 0 || m["rollout/staleness_mean"] >= 1 {
		t.Errorf("step 2: the staleness is %v on average and at most %v, want between 0 and 1, and 1", m["rollout/staleness_mean"], m["rollout/staleness_max"])
	}
	for _, ep := range r.played(t, 2) {
		if ep.WeightVersion != 1 || len(ep.Turns) != 2 || ep.Turns[0].Behind != 1 || ep.Turns[1].Behind != 0 {
			t.Errorf("%s, sample %d: version %d with turns %+v, want version 1 with a first turn that is 1 behind", ep.UID, ep.Sample, ep.WeightVersion, ep.Turns)
		}
	}
	for _, m := range lines {
		if m[track.PlaySeconds] <= 0 || m[track.Timing("gen")] <= 0 {
			t.Errorf("the times of playing and waiting are %v and %v, want more than 0", m[track.PlaySeconds], m[track.Timing("gen")])
		}
	}
}

// TestAheadTrains trains several steps ahead and checks the bound on the staleness, the tasks of the steps, and that the first step
// equals the first step of a run that plays nothing ahead.
func TestAheadTrains(t *testing.T) {
	const steps = 5
	still := aheadRig(t, 0, steps, nil)
	must(t, still.fit(t, t.Context(), t.Context()))
	for _, c := range []struct {
		name   string
		async  int
		change func(o *Options)
	}{
		{"one step", 1, nil},
		{"three steps, several updates a step", 3, func(o *Options) { o.Policy.MiniBatch, o.Policy.Micro.Rows = 2, 1 }},
		{"rollout correction", 1, func(o *Options) {
			o.Correction.Weights = &correction.Weights{Level: "token", Cap: 2}
			o.Correction.Rules = []correction.Rule{mustRule(t, "token_k3", "10")}
		}},
		{"a critic and dynamic sampling", 2, func(o *Options) {
			o.Estimator, o.Critic = "gae", criticOptions()
			o.FilterGroups, o.MaxGenBatches = true, 1
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := aheadRig(t, c.async, steps, c.change)
			must(t, r.fit(t, t.Context(), t.Context()))
			for step, m := range r.lines(t) {
				if step > 0 && !(m["rollout/staleness_max"] <= float64(min(c.async, step-1))) {
					t.Errorf("step %d: the staleness is %v, want at most %d", step, m["rollout/staleness_max"], min(c.async, step-1))
				}
			}
			if d := cmp.Diff(still.groupsOf(t, steps), r.groupsOf(t, steps)); d != "" {
				t.Errorf("the tasks of the steps differ from a run that plays nothing ahead:\n%s", d)
			}
			want, got := still.played(t, 1), r.played(t, 1)
			for i := range want {
				if !slices.Equal(got[i].Tokens, want[i].Tokens) {
					t.Errorf("step 1: episode %d has other tokens", i)
				}
			}
		})
	}
}

func mustRule(t *testing.T, name, threshold string) correction.Rule {
	t.Helper()
	rule, err := correction.ParseRule(name, threshold)
	must(t, err)
	return rule
}

// TestAheadResumes kills, interrupts and fails a run that plays ahead. The resumed run plays every task of the order
// exactly once.
func TestAheadResumes(t *testing.T) {
	const steps = 6
	still := aheadRig(t, 0, steps, nil)
	must(t, still.fit(t, t.Context(), t.Context()))
	want := still.groupsOf(t, steps)
	for _, c := range []struct {
		name string
		stop func(t *testing.T, r *rig)
	}{
		{"killed", func(t *testing.T, r *rig) { r.killAfter(t, 2) }},
		{"interrupted", func(t *testing.T, r *rig) {
			soft, stop := context.WithCancel(t.Context())
			defer stop()
			r.onPhase = func(p Phase) {
				if p.Name == "update_actor" && p.Step == 3 {
					stop()
				}
			}
			if err := r.fit(t, t.Context(), soft); !errors.Is(err, ErrInterrupted) {
				t.Errorf("the error is %v, want ErrInterrupted", err)
			}
			if n := len(r.lines(t)); n != 3 {
				t.Errorf("%d steps are done, want 3", n)
			}
		}},
		{"the server fails while it plays ahead", func(t *testing.T, r *rig) {
			const before = 2 * 2 * 3 // resets of steps 1 and 2, each of 2 groups of 3 episodes
			var resets atomic.Int32
			died := make(chan struct{})
			r.onRequest = func(path string, _ []byte) bool {
				if strings.HasSuffix(path, "/reset") && resets.Add(1) == before+1 {
					close(died)
				}
				return resets.Load() <= before
			}
			r.onPhase = func(p Phase) {
				if p.Name == "update_actor" && p.Step == 2 {
					within(t, "a failure of the server", died)
				}
			}
			err := r.fit(t, t.Context(), t.Context())
			var down *pool.DownError
			if !errors.As(err, &down) || !strings.Contains(err.Error(), "step 3: ") {
				t.Errorf("the error is %v, want a pool.DownError of step 3", err)
			}
			if n := len(r.lines(t)); n != 2 {
				t.Errorf("%d steps are done, want 2", n)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := aheadRig(t, 2, steps, nil)
			c.stop(t, r)
			r.undisturbed()
			must(t, r.fit(t, t.Context(), t.Context()))
			if d := cmp.Diff(want, r.groupsOf(t, steps)); d != "" {
				t.Errorf("the tasks of the steps differ from an undisturbed run:\n%s", d)
			}
			if lines := r.lines(t); len(lines) != steps {
				t.Errorf("%d steps have a line, want %d", len(lines), steps)
			}
		})
	}
}
