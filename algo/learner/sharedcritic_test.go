package learner

import (
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// onActor makes a critic that shares the actor's decoder, the same at every call.
func onActor(t *testing.T, a *Actor) *Critic {
	t.Helper()
	c, err := NewSharedCritic(t.Context(), a, optim.DefaultAdamW(), 14)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// oldValueRows returns rows with values from before an update. Some differ from the current values by more than the
// clip range.
func oldValueRows(t *testing.T, c *Critic) []data.Row {
	t.Helper()
	rows := valueRows(t, c)
	for i := range rows {
		for j := range rows[i].Values {
			rows[i].Values[j] += .3 * float32(j%4-1)
		}
	}
	return rows
}

func valueTerm(c *Critic, coef float64) *ValueTerm {
	return &ValueTerm{Critic: c, Coef: coef, Clip: .25, LR: 1e-2, GradClip: 1}
}

// withHead adds the head's gradients to the decoder's.
func withHead(t *testing.T, c *Critic, g map[string][]float32) map[string][]float32 {
	t.Helper()
	must(t, torch.Run(t.Context(), c.master.Thread(), func(*torch.Scope) error {
		for _, p := range c.head.params() {
			g[p.Name] = p.Tensor.Grad().ToFloat32s()
		}
		return nil
	}))
	return g
}

// headWeights returns the weights of the head.
func headWeights(t *testing.T, c *Critic) (out []float32) {
	t.Helper()
	must(t, torch.Run(t.Context(), c.master.Thread(), func(*torch.Scope) error {
		for _, p := range c.head.params() {
			out = append(out, p.Tensor.Detach().ToFloat32s()...)
		}
		return nil
	}))
	return out
}

// TestJointLossGradient checks that the gradient of the joint loss agrees with its formula: at
// ratio 1 the policy's part is -ΣA·∇log p / N, and the part of a value is (v - R), or 0 if it is
// clipped.
func TestJointLossGradient(t *testing.T) {
	const coef, clip = .7, .25
	plain := onActor(t, testActor(t, torch.Float32))
	rows := oldValueRows(t, plain)
	clipped := 0
	must(t, torch.Run(t.Context(), plain.master.Thread(), func(s *torch.Scope) error {
		p, err := pack(rows, nil, false)
		must(t, err)
		n := float64(len(p.at))
		hidden := p.hidden(s, plain.compute)
		logp := plain.compute.LMHead.Forward(hidden).LogSoftmax(-1).Gather(1, s.Int64s(p.targets, len(p.targets), 1)).Reshape(len(p.at))
		adv := p.gather(s, func(r *data.Row) *[]float32 { return &r.Advantages })
		v := hidden.MatMul(plain.head.Weight.Reshape(plain.master.Config.HiddenSize, 1)).Add(plain.head.Bias).Reshape(len(p.at))
		slopes := make([]float32, len(p.at))
		for i, x := range v.Detach().ToFloat32s() {
			r := &p.rows[p.row[i]]
			value, old, ret := float64(x), float64(r.Values[p.token[i]]), float64(r.Returns[p.token[i]])
			near := old + math.Max(-clip, math.Min(clip, value-old))
			if math.Abs(near-ret) <= math.Abs(value-ret) {
				slopes[i] = float32(value - ret)
			} else if math.Abs(value-old) <= clip {
				slopes[i] = float32(near - ret)
			} else {
				clipped++
			}
		}
		l := logp.Mul(adv).Sum().MulScalar(-1 / n).Add(v.Mul(s.Float32s(slopes, len(slopes))).Sum().MulScalar(coef / n))
		l.Backward()
		return nil
	}))
	if clipped == 0 {
		t.Error("no value is clipped, so the test checks nothing")
	}
	want := withHead(t, plain, gradients(t, plain.Actor))
	for _, split := range splits {
		c := onActor(t, testActor(t, torch.Float32))
		o := vanillaOptions()
		o.Micro, o.Value = split.micro, valueTerm(c, coef)
		var st PolicyStats
		err := c.accumulatePolicy(t.Context(), oldValueRows(t, c), true, o, &st)
		must(t, err)
		if d, name := relative(t, withHead(t, c, gradients(t, c.Actor)), want); d > 1e-4 {
			t.Errorf("%s: the relative error of the gradient of %s is %.2g", split.name, name, d)
		}
		if st.Value.ClipFrac != float64(clipped) {
			t.Errorf("%s: %v values are clipped, want %d", split.name, st.Value.ClipFrac, clipped)
		}
	}
}

// TestValueLossWithoutWeight checks that a value loss with weight 0 changes no bit of the policy's
// update, in float32 and with a bfloat16 shadow.
func TestValueLossWithoutWeight(t *testing.T) {
	for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
		alone, c := testActor(t, dt), onActor(t, testActor(t, dt))
		rows := oldValueRows(t, c)
		o := vanillaOptions()
		o.MiniBatch, o.Micro, o.EntropyCoef = 4, MicroBatching{Rows: 2}, .01
		want, err := alone.UpdateActor(t.Context(), slices.Clone(rows), 1e-2, o)
		must(t, err)
		o.Value = valueTerm(c, 0)
		got, err := c.UpdateActor(t.Context(), slices.Clone(rows), 1e-2, o)
		must(t, err)
		if got.GradNorm != want.GradNorm || got.Loss != want.Loss || got.Steps != 2 {
			t.Errorf("%s: stats %+v, want %+v as without a critic", dt, got, want)
		}
		if d, name := relative(t, weights(t, c.Actor), weights(t, alone)); d != 0 {
			t.Errorf("%s: %s differs by %g from the update without a critic", dt, name, d)
		}
		if got.Value.GradNorm != 0 || !(got.Value.Loss > 0) {
			t.Errorf("%s: value stats %+v, want the gradient norm 0 and a positive loss", dt, got.Value)
		}
	}
}

// TestSharedCriticLearns checks that joint updates move the values to the returns and change the
// decoder.
func TestSharedCriticLearns(t *testing.T) {
	for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
		c := onActor(t, testActor(t, dt))
		o := vanillaOptions()
		o.Value = valueTerm(c, 1)
		o.Value.Clip = 100
		var first, last CriticStats
		for i := range 30 {
			st, err := c.UpdateActor(t.Context(), valueRows(t, c), 1e-2, o)
			must(t, err)
			if last = st.Value; i == 0 {
				first = last
			}
		}
		if !(last.Loss < first.Loss/4) || last.Steps != 1 || !(last.GradNorm > 0) {
			t.Errorf("%s: stats %+v after 30 updates, want a loss below a quarter of the first, %+v", dt, last, first)
		}
	}
}

// TestSharedCriticWarmsUp checks that the warm-up trains the head and changes neither the decoder
// nor its adapters and optimiser, with and without dropout.
func TestSharedCriticWarmsUp(t *testing.T) {
	for name, a := range map[string]*Actor{
		"float32": testActor(t, torch.Float32), "bfloat16": testActor(t, torch.BFloat16), "adapters": actorOf(t, torch.Float32, dropping),
	} {
		a.SetGradientCheckpointing(true)
		c := onActor(t, a)
		before := valuesOf(t, a, (*model.Model).Params)
		adapters := valuesOf(t, a, (*model.Model).Adapters)
		o := criticOptions()
		o.MiniBatch, o.Clip, o.Micro = 4, 100, MicroBatching{Rows: 3}
		var first, last CriticStats
		for i := range 30 {
			st, err := c.UpdateCritic(t.Context(), valueRows(t, c), 3e-2, *o)
			must(t, err)
			if last = st; i == 0 {
				first = last
			}
		}
		if !(last.Loss < first.Loss*.9) || last.Steps != 2 || c.headAdamW.Steps() != 60 || a.adamw.Steps() != 0 {
			t.Errorf("%s: stats %+v after 30 updates, the first were %+v; the optimisers of head and decoder did %d and %d steps, want 60 and 0", name, last, first, c.headAdamW.Steps(), a.adamw.Steps())
		}
		if !sameBits(valuesOf(t, a, (*model.Model).Params), before) || !sameBits(valuesOf(t, a, (*model.Model).Adapters), adapters) {
			t.Errorf("%s: the decoder changed", name)
		}
	}
}

// TestSharedCriticOnAdapters checks that both losses train the adapters and not the frozen weights,
// and that a second step after a checkpoint gives the same bits.
func TestSharedCriticOnAdapters(t *testing.T) {
	o := vanillaOptions()
	o.MiniBatch, o.Micro = 4, MicroBatching{Rows: 2}
	update := func(c *Critic) {
		t.Helper()
		rows := oldValueRows(t, c)
		must(t, c.ValuesAndLogProbs(t.Context(), rows, MicroBatching{}, 1))
		o := o
		o.Value = valueTerm(c, .5)
		_, err := c.UpdateActor(t.Context(), rows, 1e-2, o)
		must(t, err)
	}
	a := onActor(t, actorOf(t, torch.Float32, dropping))
	frozen, before := valuesOf(t, a.Actor, (*model.Model).Params), valuesOf(t, a.Actor, (*model.Model).Adapters)
	update(a)
	dir := t.TempDir()
	must(t, a.SaveOptimizer(t.Context(), dir))
	must(t, a.master.SaveAdapters(t.Context(), dir))
	must(t, a.Save(t.Context(), dir))
	update(a)
	if !sameBits(valuesOf(t, a.Actor, (*model.Model).Params), frozen) || sameBits(valuesOf(t, a.Actor, (*model.Model).Adapters), before) {
		t.Error("the frozen weights changed, or the adapters did not change")
	}

	b := onActor(t, actorOf(t, torch.Float32, dropping))
	must(t, b.master.LoadAdapters(t.Context(), dir))
	must(t, b.LoadOptimizer(t.Context(), dir))
	must(t, b.Load(t.Context(), dir))
	update(b)
	if !sameBits(valuesOf(t, b.Actor, (*model.Model).Adapters), valuesOf(t, a.Actor, (*model.Model).Adapters)) || !slices.Equal(headWeights(t, b), headWeights(t, a)) {
		t.Error("after a resume the second step gave different weights")
	}
}

// TestValuesAndLogProbs checks that one pass returns the same values and log-probs as two passes.
func TestValuesAndLogProbs(t *testing.T) {
	c := onActor(t, testActor(t, torch.Float32))
	one, two := trainRows(8), trainRows(8)
	must(t, c.ValuesAndLogProbs(t.Context(), one, MicroBatching{Rows: 3}, .9))
	must(t, c.Values(t.Context(), two, MicroBatching{Rows: 3}))
	must(t, LogProbs(t.Context(), c.compute, two, MicroBatching{Rows: 3}, .9, OldLogProbs))
	for i := range one {
		if !slices.Equal(one[i].Values, two[i].Values) || !slices.Equal(one[i].OldLogProbs, two[i].OldLogProbs) {
			t.Errorf("row %d: values %v and log-probs %v, want %v and %v", i, one[i].Values, one[i].OldLogProbs, two[i].Values, two[i].OldLogProbs)
		}
	}
}

// TestSharedCriticsBadStep checks that a non-finite joint step changes neither the decoder nor the
// head, and leaves no gradient.
func TestSharedCriticsBadStep(t *testing.T) {
	for _, bad := range faulty {
		t.Run(bad.name, func(t *testing.T) {
			c := onActor(t, testActor(t, torch.Float32))
			rows, before, head := oldValueRows(t, c), weights(t, c.Actor), headWeights(t, c)
			o := vanillaOptions()
			o.Value = valueTerm(c, 1)
			c.spoil = bad.spoil(c.Actor)
			st, err := c.UpdateActor(t.Context(), rows, 1e-2, o)
			must(t, err)
			if st.Skipped != 1 || st.Value.Skipped != 1 || st.Value.Loss != 0 || c.headAdamW.Steps() != 0 || c.inconsistent {
				t.Errorf("stats %+v after %d steps of the head, inconsistent %v; want 1 skipped step, 0 steps and false", st, c.headAdamW.Steps(), c.inconsistent)
			}
			if d, name := relative(t, weights(t, c.Actor), before); d != 0 || !slices.Equal(headWeights(t, c), head) {
				t.Errorf("%s changed by %g, or the head changed", name, d)
			}
			must(t, torch.Run(t.Context(), c.master.Thread(), func(*torch.Scope) error {
				for _, p := range c.head.params() {
					if !p.Tensor.Grad().None() {
						t.Errorf("%s has a gradient after a skipped step", p.Name)
					}
				}
				return nil
			}))
		})
	}
}

// TestSharedCriticsMemory checks that a shared critic takes the memory of a head and its moments,
// and a separate critic the memory of a second model.
func TestSharedCriticsMemory(t *testing.T) {
	c := onActor(t, testActor(t, torch.Float32))
	width := float64(c.master.Config.HiddenSize)
	if w, o := c.Bytes(); w != 4*(width+1) || o != 8*(width+1) {
		t.Errorf("a shared critic takes %v bytes and its optimiser %v, want the bytes of a head", w, o)
	}
	if w, o := testCritic(t, torch.Float32).Bytes(); w < ModelBytes(c.master) || o < 2*ModelBytes(c.master) {
		t.Errorf("a separate critic takes %v bytes and its optimiser %v, want at least the bytes of a model", w, o)
	}
}

// TestSecondSharedCritic checks that an actor has one critic at a time.
func TestSecondSharedCritic(t *testing.T) {
	a := testActor(t, torch.Float32)
	c, err := NewSharedCritic(t.Context(), a, optim.DefaultAdamW(), 1)
	must(t, err)
	if second, err := NewSharedCritic(t.Context(), a, optim.DefaultAdamW(), 1); err == nil {
		second.Close()
		t.Error("a second critic was accepted")
	}
	c.Close()
	onActor(t, a)
}
