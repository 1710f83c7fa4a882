package algo

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// TestCriticsBadStepsAreResumed checks that the number of the critic's consecutive bad steps
// survives a resume, also during its warm-up, and that the critic's memory and time are reported
// separately from the actor's.
func TestCriticsBadStepsAreResumed(t *testing.T) {
	r := quick(t, func(o *Options) {
		o.Estimator, o.Critic = "gae", criticOptions()
		o.Critic.MiniBatch, o.Critic.Warmup, o.Critic.FromActor = 0, 9, true
	})
	r.steps = 2
	r.spoilCritic = func(l torch.Tensor) torch.Tensor { return l.MulScalar(math.NaN()) }
	must(t, r.fit(t, t.Context(), t.Context()))
	m := r.lines(t)[2]
	if m["critic/skipped_steps"] != 1 {
		t.Errorf("%v steps of the critic were skipped, want 1", m["critic/skipped_steps"])
	}
	// The actor's output layer, which the critic does not have, is tied to the embedding in this model and adds no
	// memory.
	weights, critic := m["perf/memory_bytes/weights"], m["perf/memory_bytes/critic"]
	if head := 4 * float64(tinyConfig().HiddenSize+1); critic != weights+head || m["perf/memory_bytes/critic_optimizer"] != 2*critic {
		t.Errorf("the critic takes %v bytes and its optimiser %v, want the actor's %v bytes plus a head, and twice that for the optimiser", critic, m["perf/memory_bytes/critic_optimizer"], weights)
	}
	r.steps = 3
	err := r.fit(t, t.Context(), t.Context())
	var diverged *learner.DivergedError
	if !errors.As(err, &diverged) || diverged.Steps != 3 {
		t.Errorf("the third consecutive bad step, after a resume, returned %v, want a DivergedError of 3 steps", err)
	}
}

// TestCriticIsResumed checks that a killed run with a critic continues from its checkpoint
// with the same results. The actor is not trained during the critic's warm-up. A critic that shares
// the actor's decoder saves no second model.
func TestCriticIsResumed(t *testing.T) {
	for name, shared := range map[string]bool{"own decoder": false, "shared decoder": true} {
		t.Run(name, func(t *testing.T) { criticIsResumed(t, shared) })
	}
}

func criticIsResumed(t *testing.T, shared bool) {
	rate := optim.Schedule{Shape: "linear", Base: 1e-3, Warmup: 1, Steps: 3}
	run := func(killAfter int) map[int]track.Metrics {
		r := quick(t, func(o *Options) {
			o.Estimator, o.Critic = "gae", criticOptions()
			o.Critic.Warmup, o.Critic.FromActor = 1, !shared
			if shared {
				o.Critic.Coef, o.Policy.MiniBatch = .5, 3
			}
			o.SaveEvery = 1
			o.Schedule = rate
		})
		r.steps, r.shared = 3, shared
		if killAfter > 0 {
			r.killAfter(t, killAfter)
		}
		must(t, r.fit(t, t.Context(), t.Context()))
		_, err := os.Stat(filepath.Join(r.dir, "checkpoints", "step_000003", learner.CriticFolder, "config.json"))
		if model := err == nil; model == shared {
			t.Errorf("the checkpoint has a second model: %v, want %v", model, !shared)
		}
		return r.lines(t)
	}
	undisturbed, resumed := run(0), run(1)
	for step := 1; step <= 3; step++ {
		if lr, updated := undisturbed[step]["actor/lr"]; updated != (step > 1) || updated && lr != rate.LR(step-2) {
			t.Errorf("step %d: the actor's learning rate is %v, but the schedule must begin with the actor's first step", step, lr)
		}
		for _, name := range []string{
			"critic/vf_loss", "critic/grad_norm", "critic/lr", "critic/values/mean", "perf/memory_bytes/critic", "actor/pg_loss", "actor/grad_norm",
		} {
			if resumed[step][name] != undisturbed[step][name] {
				t.Errorf("step %d: %s is %v, want %v as in an undisturbed run", step, name, resumed[step][name], undisturbed[step][name])
			}
		}
		if _, updated := undisturbed[step]["actor/pg_loss"]; updated != (step > 1) {
			t.Errorf("step %d: the actor was updated: %v, want %v", step, updated, step > 1)
		}
		if loss := undisturbed[step]["critic/vf_loss"]; !(loss > 0) {
			t.Errorf("step %d: the value loss is %v, want a positive number", step, loss)
		}
		// A shared critic computes its values in the pass of the log-probs, except during the warm-up.
		if _, separate := undisturbed[step]["timing_s/values"]; separate != (!shared || step == 1) {
			t.Errorf("step %d: the values had a separate pass: %v, want %v", step, separate, !shared || step == 1)
		}
	}
	if c, w := undisturbed[3]["perf/memory_bytes/critic"], undisturbed[3]["perf/memory_bytes/weights"]; shared != (c < w/10) {
		t.Errorf("the critic takes %v bytes, the weights %v; a shared critic must be much smaller, a separate critic not", c, w)
	}
}
