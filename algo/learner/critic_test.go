package learner

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func criticOptions() *CriticOptions {
	return &CriticOptions{
		MiniBatch: 3, Clip: .5, GradClip: 1, AdamW: optim.DefaultAdamW(),
		Schedule: optim.Schedule{Shape: "constant", Base: 1e-2, Steps: 10},
	}
}

func testCritic(t *testing.T, compute torch.DType) *Critic {
	t.Helper()
	th, err := torch.NewThread(torchtest.Device(t))
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

// TestCriticLearns checks that updates of decoder and head move the values to the returns, in
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
			t.Errorf("%s: the value loss is %g after 30 updates, want less than a quarter of the first, %g", compute, last.Loss, first)
		}
	}
}

// TestCriticMicroBatching checks that the critic's gradient does not depend on micro-batching, and
// that the head has a gradient.
func TestCriticMicroBatching(t *testing.T) {
	var first map[string][]float32
	for _, c := range splits {
		critic := testCritic(t, torch.Float32)
		rows := valueRows(t, critic)
		o := criticOptions()
		o.Micro = c.micro
		var st CriticStats
		must(t, critic.accumulateValue(t.Context(), rows, LossTokens(rows), *o, &st))
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
			t.Errorf("%s: the relative error of the gradient of %s is %.2g", c.name, name, d)
		}
	}
}

// TestCriticGradientCheckpointing checks that gradient checkpointing changes no bit of the critic's
// gradient.
func TestCriticGradientCheckpointing(t *testing.T) {
	for _, compute := range []torch.DType{torch.Float32, torch.BFloat16} {
		critic := testCritic(t, compute)
		rows := valueRows(t, critic)
		o := criticOptions()
		o.Micro = MicroBatching{Rows: 3}
		of := func(checkpointing bool) map[string][]float32 {
			critic.SetGradientCheckpointing(checkpointing)
			var st CriticStats
			must(t, critic.accumulateValue(t.Context(), rows, LossTokens(rows), *o, &st))
			g := gradients(t, critic.Actor)
			must(t, torch.Run(t.Context(), critic.Master().Thread(), func(*torch.Scope) error {
				for _, p := range critic.extra {
					g[p.Name] = p.Tensor.Grad().ToFloat32s()
					p.Tensor.ZeroGrad()
				}
				critic.Master().DropGrads()
				return nil
			}))
			return g
		}
		kept, anew := of(false), of(true)
		if !maps.EqualFunc(kept, anew, slices.Equal[[]float32]) {
			t.Errorf("%s: the gradients with and without gradient checkpointing differ", compute)
		}
	}
}

// TestCriticStartsFromTheActor checks that CopyFrom copies an actor's weights to the critic's
// decoder and to its shadow.
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
