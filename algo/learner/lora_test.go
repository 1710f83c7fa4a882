package learner

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

var dropping = &model.LoRA{Rank: 3, Alpha: 6, Dropout: .3, Targets: []string{"q_proj", "up_proj"}}

func valuesOf(t *testing.T, a *Actor, of func(*model.Model) []model.Param) [][]float32 {
	t.Helper()
	var out [][]float32
	must(t, torch.Run(t.Context(), a.master.Thread(), func(*torch.Scope) error {
		for _, p := range of(a.master) {
			out = append(out, p.Tensor.Detach().ToFloat32s())
		}
		return nil
	}))
	return out
}

func sameBits(a, b [][]float32) bool {
	return slices.EqualFunc(a, b, func(x, y []float32) bool { return slices.Equal(x, y) })
}

// TestLoRAUpdate checks that an update changes only the adapters, also in bfloat16. Two steps equal
// one step, a checkpoint and another step, bit for bit, including dropout.
func TestLoRAUpdate(t *testing.T) {
	o := vanillaOptions()
	o.MiniBatch, o.Micro = 4, MicroBatching{Rows: 2}
	for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
		t.Run(dt.String(), func(t *testing.T) {
			update := func(a *Actor) {
				t.Helper()
				st, err := a.UpdateActor(t.Context(), trainRows(8), 1e-2, o)
				must(t, err)
				if st.Steps != 2 || math.IsNaN(st.Loss) {
					t.Fatalf("stats %+v, want 2 steps and a finite loss", st)
				}
			}
			a := actorOf(t, dt, dropping)
			a.SetDropoutSeed(3)
			if a.Compute() != a.Master() {
				t.Fatal("the actor made a second copy of the frozen weights")
			}
			frozen, before := valuesOf(t, a, (*model.Model).Params), valuesOf(t, a, (*model.Model).Adapters)
			update(a)
			dir := t.TempDir()
			must(t, a.SaveOptimizer(t.Context(), dir))
			must(t, a.master.SaveAdapters(t.Context(), dir))
			update(a)
			if !sameBits(valuesOf(t, a, (*model.Model).Params), frozen) {
				t.Error("the frozen weights changed")
			}
			after := valuesOf(t, a, (*model.Model).Adapters)
			for i := range after {
				if slices.Equal(after[i], before[i]) {
					t.Errorf("%s did not change", a.master.Adapters()[i].Name)
				}
			}

			b := actorOf(t, dt, dropping)
			b.SetDropoutSeed(3)
			must(t, b.master.LoadAdapters(t.Context(), dir))
			must(t, b.LoadOptimizer(t.Context(), dir))
			update(b)
			if !sameBits(valuesOf(t, b, (*model.Model).Adapters), after) {
				t.Error("after a resume the second step gave different adapters")
			}

			c := actorOf(t, dt, dropping)
			c.SetDropoutSeed(4)
			update(c)
			update(c)
			if sameBits(valuesOf(t, c, (*model.Model).Adapters), after) {
				t.Error("the weights are equal for two seeds of dropout")
			}
		})
	}
}

// TestLoRAReference checks that dropout is off in the passes that compute log-probs, and that the
// reference, which uses the frozen weights, does not change when the adapters change.
func TestLoRAReference(t *testing.T) {
	a := actorOf(t, torch.Float32, dropping)
	plain := testActor(t, torch.Float32)
	score := func(m *model.Model) []data.Row {
		t.Helper()
		rows := trainRows(4)
		must(t, LogProbs(t.Context(), m, rows, MicroBatching{Rows: 3}, 1, RefLogProbs))
		return rows
	}
	same := func(a, b []data.Row) bool {
		return slices.EqualFunc(a, b, func(x, y data.Row) bool { return slices.Equal(x.RefLogProbs, y.RefLogProbs) })
	}
	ref := a.Master().Base()
	want := score(plain.Master())
	o := vanillaOptions()
	o.MiniBatch = 4
	_, err := a.UpdateActor(t.Context(), trainRows(8), 1e-2, o)
	must(t, err)
	if !same(score(ref), want) {
		t.Error("the log-probs of the reference differ from the model without its adapters")
	}
	if once := score(a.Master()); !same(once, score(a.Master())) || same(once, want) {
		t.Error("the log-probs of the adapted model are random, or equal the frozen model's")
	}
}

// TestDropoutNeedsOldLogProbs checks that with dropout even a single mini-batch needs old
// log-probs, since the log-probs of the update differ from the old ones.
func TestDropoutNeedsOldLogProbs(t *testing.T) {
	a := actorOf(t, torch.Float32, dropping)
	rows := trainRows(4)
	must(t, LogProbs(t.Context(), a.Compute(), rows, MicroBatching{}, 1, OldLogProbs))
	before := slices.Clone(rows[0].OldLogProbs)
	st, err := a.UpdateActor(t.Context(), rows, 1e-3, vanillaOptions())
	must(t, err)
	if st.PPOKL == 0 || !slices.Equal(rows[0].OldLogProbs, before) {
		t.Errorf("the KL to the policy without dropout is %v, want it not 0 and the old log-probs unchanged", st.PPOKL)
	}
}

// TestOffload checks that offloaded tensors return unchanged; on the CPU nothing is moved.
func TestOffload(t *testing.T) {
	a, b, frozen := actorOf(t, torch.Float32, nil), actorOf(t, torch.Float32, nil), actorOf(t, torch.Float32, nil)
	critic, other := testCritic(t, torch.Float32), testCritic(t, torch.Float32)
	updateValues := func(c *Critic) error {
		_, err := c.UpdateCritic(t.Context(), valueRows(t, c), 1e-2, *criticOptions())
		return err
	}
	must(t, errors.Join(updateValues(critic), updateValues(other)))
	step := func(a *Actor) error {
		_, err := a.UpdateSFT(t.Context(), trainRows(4), 1e-3, 1, MicroBatching{})
		return err
	}
	must(t, errors.Join(step(a), step(b)))
	live := torch.LiveTensors()
	for _, trained := range []*Actor{a, critic.Actor} {
		must(t, trained.WithOptimizer(t.Context(), func() error { return nil }))
	}
	before := valuesOf(t, frozen, (*model.Model).Params)
	must(t, WithModel(t.Context(), "the model", frozen.master, func() error { return nil }))
	if !sameBits(valuesOf(t, frozen, (*model.Model).Params), before) {
		t.Error("offloading changed the weights of a model")
	}
	if now := torch.LiveTensors(); now != live {
		t.Errorf("%d tensors are live, want %d as before", now, live)
	}
	must(t, a.WithOptimizer(t.Context(), func() error { return step(a) }))
	must(t, step(b))
	if !sameBits(valuesOf(t, a, (*model.Model).Params), valuesOf(t, b, (*model.Model).Params)) {
		t.Error("with offloading a step gave different weights")
	}
	must(t, critic.WithOptimizer(t.Context(), func() error { return updateValues(critic) }))
	must(t, updateValues(other))
	if !sameBits(valuesOf(t, critic.Actor, (*model.Model).Params), valuesOf(t, other.Actor, (*model.Model).Params)) {
		t.Error("with offloading a step gave the critic different weights")
	}
}

// TestLoRANeedsTheComputeType checks that NewActor rejects frozen weights that do not have the
// compute type.
func TestLoRANeedsTheComputeType(t *testing.T) {
	a := actorOf(t, torch.BFloat16, dropping)
	if _, err := NewActor(t.Context(), a.master, torch.Float32, optim.DefaultAdamW()); err == nil {
		t.Error("frozen weights of another type were accepted")
	}
}
