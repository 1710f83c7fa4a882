package algo

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

func criticOptions() *CriticOptions {
	return &CriticOptions{
		MiniBatch: 3, Clip: .5, GradClip: 1, AdamW: optim.DefaultAdamW(),
		Schedule: optim.Schedule{Shape: "constant", Base: 1e-2, Steps: 10},
	}
}

func testCritic(t *testing.T, compute torch.DType) *Critic {
	t.Helper()
	th, err := torch.NewThread(torch.Device{})
	must(t, err)
	t.Cleanup(th.Close)
	m, err := model.New(t.Context(), th, tinyConfig(), 11, torch.Float32)
	must(t, err)
	c, err := NewCritic(t.Context(), m, compute, optim.DefaultAdamW(), 14)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

func valueRows(t *testing.T, c *Critic) []data.Row {
	t.Helper()
	rows := trainRows(8)
	must(t, c.Values(t.Context(), rows, MicroBatching{Rows: 3}))
	for i := range rows {
		rows[i].Returns = rows[i].Advantages
	}
	return rows
}

// Updates bring the values to the returns, in the decoder and in the head, in
// float32 and with a bfloat16 shadow.
func TestCriticLearns(t *testing.T) {
	for _, compute := range []torch.DType{torch.Float32, torch.BFloat16} {
		c := testCritic(t, compute)
		o := criticOptions()
		o.MiniBatch = 0
		o.Clip = 100
		first := math.NaN()
		var last CriticStats
		for range 30 {
			st, err := c.UpdateCritic(t.Context(), valueRows(t, c), 1e-2, *o)
			must(t, err)
			if math.IsNaN(first) {
				first = st.Loss
			}
			last = st
		}
		if !(last.Loss < first/4) {
			t.Errorf("%s: the value loss is %g after 30 updates, was %g", compute, last.Loss, first)
		}
	}
}

// The gradient does not depend on micro-batching, and reaches the head.
func TestCriticMicroBatching(t *testing.T) {
	var first map[string][]float32
	for _, c := range splits {
		critic := testCritic(t, torch.Float32)
		rows := valueRows(t, critic)
		o := criticOptions()
		o.Micro = c.micro
		var st CriticStats
		must(t, critic.accumulateValue(t.Context(), rows, maskedTokens(rows), *o, &st))
		g := gradients(t, critic.Actor)
		must(t, torch.Run(t.Context(), critic.Master().Thread(), func(*torch.Scope) error {
			for _, p := range critic.extra {
				g[p.Name] = p.Tensor.Grad().ToFloat32s()
			}
			return nil
		}))
		if first == nil {
			first = g
			continue
		}
		if d, name := relative(t, g, first); d > 1e-5 {
			t.Errorf("%s: the gradient of %s is off by %.2g", c.name, name, d)
		}
	}
}

// The gradient is the same to the last bit where activations are computed again
// for it.
func TestCriticGradientCheckpointing(t *testing.T) {
	for _, compute := range []torch.DType{torch.Float32, torch.BFloat16} {
		critic := testCritic(t, compute)
		rows := valueRows(t, critic)
		o := criticOptions()
		o.Micro = MicroBatching{Rows: 3}
		of := func(checkpointing bool) map[string][]float32 {
			critic.SetGradientCheckpointing(checkpointing)
			var st CriticStats
			must(t, critic.accumulateValue(t.Context(), rows, maskedTokens(rows), *o, &st))
			g := gradients(t, critic.Actor)
			must(t, torch.Run(t.Context(), critic.Master().Thread(), func(*torch.Scope) error {
				for _, p := range critic.extra {
					g[p.Name] = p.Tensor.Grad().ToFloat32s()
					p.Tensor.ZeroGrad()
				}
				zeroGrads(critic.Master())
				return nil
			}))
			return g
		}
		kept, anew := of(false), of(true)
		if !maps.EqualFunc(kept, anew, slices.Equal[[]float32]) {
			t.Errorf("%s: the gradients differ", compute)
		}
	}
}

// A critic may start from another model's weights, those it computes with included.
func TestCriticStartsFromTheActor(t *testing.T) {
	c := testCritic(t, torch.BFloat16)
	other, err := model.New(t.Context(), c.Master().Thread(), tinyConfig(), 99, torch.Float32)
	must(t, err)
	b, err := NewActor(t.Context(), other, torch.Float32, optim.DefaultAdamW())
	must(t, err)
	defer b.Close()
	must(t, c.CopyFrom(t.Context(), b))
	sameTensors(t, "the critic's decoder", weights(t, c.Actor), weights(t, b))
}

// The critic's bad steps in a row are counted over a resume, also while it warms
// up alone; and what it takes is told apart from what the actor does.
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
		t.Errorf("%v steps of the critic were left out, want 1", m["critic/skipped_steps"])
	}
	// The actor has an output layer that the critic does not use, but for the tied one of this model.
	weights, critic := m["perf/memory_bytes/weights"], m["perf/memory_bytes/critic"]
	if head := 4 * float64(tinyConfig().HiddenSize+1); critic != weights+head || m["perf/memory_bytes/critic_optimizer"] != 2*critic {
		t.Errorf("the critic takes %v bytes and its optimiser %v, the actor %v", critic, m["perf/memory_bytes/critic_optimizer"], weights)
	}
	r.steps = 3
	err := r.fit(t, t.Context(), t.Context())
	var diverged *DivergedError
	if !errors.As(err, &diverged) || diverged.Steps != 3 {
		t.Errorf("the third bad step in a row, after a resume, gave %v", err)
	}
}

// A run with a critic that is killed goes on from its checkpoint as if nothing
// had happened, and the actor rests while the critic warms up; one on the
// actor's decoder writes no second model.
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
		_, err := os.Stat(filepath.Join(r.dir, "checkpoints", "step_000003", CriticFolder, "config.json"))
		if model := err == nil; model == shared {
			t.Errorf("the checkpoint has a second model: %v", model)
		}
		return r.lines(t)
	}
	calm, resumed := run(0), run(1)
	for step := 1; step <= 3; step++ {
		if lr, updated := calm[step]["actor/lr"]; updated != (step > 1) || updated && lr != rate.LR(step-2) {
			t.Errorf("step %d: the actor's rate is %v: it begins with the actor's first step", step, lr)
		}
		for _, name := range []string{
			"critic/vf_loss", "critic/grad_norm", "critic/lr", "critic/values/mean", "perf/memory_bytes/critic", "actor/pg_loss", "actor/grad_norm",
		} {
			if resumed[step][name] != calm[step][name] {
				t.Errorf("step %d: %s is %v, undisturbed %v", step, name, resumed[step][name], calm[step][name])
			}
		}
		if _, updated := calm[step]["actor/pg_loss"]; updated != (step > 1) {
			t.Errorf("step %d: the actor was updated: %v", step, updated)
		}
		if loss := calm[step]["critic/vf_loss"]; !(loss > 0) {
			t.Errorf("step %d: the value loss is %v", step, loss)
		}
		// The log-probs of several mini-batches come with the values.
		if _, alone := calm[step]["timing_s/values"]; alone != (!shared || step == 1) {
			t.Errorf("step %d: the values had a pass of their own: %v", step, alone)
		}
	}
	if c, w := calm[3]["perf/memory_bytes/critic"], calm[3]["perf/memory_bytes/weights"]; shared != (c < w/10) {
		t.Errorf("the critic takes %v bytes, the weights %v", c, w)
	}
}
