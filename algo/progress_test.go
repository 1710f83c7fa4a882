package algo

import (
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch/optim"
)

// TestProgressOfPhases checks that every phase that runs a model over rows or plays episodes
// reports its progress after each micro-batch or episode, and reaches its total.
func TestProgressOfPhases(t *testing.T) {
	for _, supervised := range []bool{false, true} {
		r := newRig(t)
		r.supervised, r.reference = supervised, !supervised
		want := []string{PhaseSFT, "testing"}
		r.options = func(o *Options) {
			if supervised {
				o.WarmStart.BatchRows, o.WarmStart.Micro.Rows = 2, 1
				o.WarmStart.ValRows = []data.Row{o.WarmStart.Rows[0], o.WarmStart.Rows[1]}
				return
			}
			micro := learner.MicroBatching{Rows: 2}
			o.Policy.Micro, o.RefMicro, o.Policy.MiniBatch, o.Policy.Passes.Epochs = micro, micro, 3, 2
			o.Estimator = "gae"
			o.Critic = &learner.CriticOptions{Micro: micro, Passes: learner.Passes{Epochs: 2}, GradClip: 1, AdamW: o.AdamW,
				Schedule: optim.Schedule{Shape: "constant", Base: 1e-3, Steps: r.steps}}
		}
		if !supervised {
			want = append(want, "gen", "values", "old_log_prob", "ref", "update_critic", "update_actor")
		}
		must(t, r.fit(t, t.Context(), t.Context()))
		for _, name := range want {
			seen := 0
			for _, p := range r.phases {
				if p.Name != name {
					continue
				}
				seen++
				if p.Total == 0 || p.last != p.Total {
					t.Errorf("step %d of %d: the progress of %s %s ended at %d of %d", p.Step, p.Steps, name, p.Of, p.last, p.Total)
				}
				if p.calls < 2 && p.Total > 2 {
					t.Errorf("phase %s with %d units reported its progress %d times, want at least 2", name, p.Total, p.calls)
				}
				plays := name == "gen" || name == "testing" && !strings.HasPrefix(p.Of, "held-out")
				if (p.Sampled != nil) != plays || plays && p.Sampled() == 0 {
					t.Errorf("phase %s %s: sampled tokens are counted: %t, want %t, and more than none", name, p.Of, p.Sampled != nil, plays)
				}
				if (p.Of != "") != (name == "testing") {
					t.Errorf("phase %s has Of = %q, want it set only for testing", name, p.Of)
				}
			}
			if seen == 0 {
				t.Errorf("no phase %s was reported", name)
			}
		}
	}
}

// calls is an Events that records the names of its calls.
type calls []string

func (c *calls) Phase(p Phase)                 { *c = append(*c, "phase "+p.Name) }
func (c *calls) Progress(_ int, note string)   { *c = append(*c, "progress "+note) }
func (c *calls) Step(int, int, Metrics)        { *c = append(*c, "step") }
func (c *calls) Validated(v rundir.Validation) { *c = append(*c, "validated "+v.Label) }

// TestListeners checks that every member receives every report.
func TestListeners(t *testing.T) {
	var a, b calls
	l := Listeners{&a, &b}
	l.Phase(Phase{Name: "gen"})
	l.Progress(1, "one")
	l.Step(1, 2, nil)
	l.Validated(rundir.Validation{Label: "after"})
	want := calls{"phase gen", "progress one", "step", "validated after"}
	if !slices.Equal(a, want) || !slices.Equal(b, want) {
		t.Errorf("the members received %q and %q, want %q", a, b, want)
	}
}
