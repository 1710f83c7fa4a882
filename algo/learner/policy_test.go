package learner

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

// splits lists ways to cut rows into micro-batches. None of them may change a result.
var splits = []struct {
	name  string
	micro MicroBatching
}{
	{"all", MicroBatching{}},
	{"one row", MicroBatching{Rows: 1}},
	{"three rows", MicroBatching{Rows: 3}},
	{"40 tokens", MicroBatching{MaxTokens: 40}},
	{"two rows and 64 tokens", MicroBatching{Rows: 2, MaxTokens: 64}},
}

// clipHigher returns the parameters of all losses, with the clip bounds of the vanilla loss.
func clipHigher() loss.Options {
	return loss.Options{Params: registry.Values{
		"clip_ratio_low": .2, "clip_ratio_high": .28, "clip_ratio_c": 3.0, "tau_pos": 1.0, "tau_neg": 1.05,
		"clip_cov_ratio": .2, "clip_cov_lb": -5.0, "clip_cov_ub": 5.0, "kl_cov_ratio": .2, "ppo_kl_coef": .1,
	}}
}

func vanillaOptions() PolicyOptions {
	return PolicyOptions{Loss: "vanilla", Agg: loss.TokenMean, LossOptions: clipHigher(), Temperature: 1, GradClip: 1}
}

func policyOptions(micro MicroBatching) PolicyOptions {
	return PolicyOptions{
		Micro: micro, Loss: "vanilla", Agg: loss.TokenMean, LossOptions: clipHigher(), EntropyCoef: .01, KLCoef: .1, KLType: "k3",
		Temperature: .9, GradClip: 1,
	}
}

// TestMicroBatchingDoesNotChangeTheUpdate checks that the gradient and the updated weights do not
// depend on micro-batching, on policy and off policy, with every term in the loss.
func TestMicroBatchingDoesNotChangeTheUpdate(t *testing.T) {
	for _, onPolicy := range []bool{true, false} {
		var grad, updated map[string][]float32
		var stats PolicyStats
		for _, c := range splits {
			a := testActor(t, torch.Float32)
			var st PolicyStats
			if err := a.accumulatePolicy(t.Context(), trainRows(8), onPolicy, policyOptions(c.micro), &st); err != nil {
				t.Fatal(err)
			}
			g := gradients(t, a)
			stepOnce(t, a)
			w := weights(t, a)
			if grad == nil {
				grad, updated, stats = g, w, st
				continue
			}
			what := fmt.Sprintf("%s, on policy %v", c.name, onPolicy)
			sameTensors(t, what+": gradient", g, grad)
			sameTensors(t, what+": weight", w, updated)
			for _, x := range [][2]float64{{st.Loss, stats.Loss}, {st.KL, stats.KL}, {st.Entropy, stats.Entropy}, {st.PPOKL, stats.PPOKL}, {st.ClipFrac, stats.ClipFrac}} {
				if math.Abs(x[0]-x[1]) > 1e-5*math.Max(1, math.Abs(x[1])) {
					t.Errorf("%s, on policy %v: statistics %+v, want %+v", c.name, onPolicy, st, stats)
					break
				}
			}
		}
	}
}

// TestMicroBatchingWithEveryLoss checks that micro-batching does not change the gradient of any
// loss with weights of a rollout correction, off policy.
func TestMicroBatchingWithEveryLoss(t *testing.T) {
	for _, name := range loss.Policies.Names() {
		t.Run(name, func(t *testing.T) {
			var grad map[string][]float32
			for _, micro := range []MicroBatching{{}, {Rows: 1}, {Rows: 3}} {
				o := policyOptions(micro)
				o.Loss, o.Agg = name, loss.SeqMeanTokenMean
				o.LossOptions.BypassLoss, o.LossOptions.BypassWeights, o.LossOptions.BypassWeightsCap = loss.Reinforce, loss.BySequence, 2
				rows := trainRows(8)
				for i := range rows {
					rows[i].Weights = make([]float32, len(rows[i].Tokens))
					for j := range rows[i].Weights {
						rows[i].Weights[j] = .5 + .1*float32(j%7)
						rows[i].RolloutLogProbs[j] = -5 + .1*float32(j%4)
					}
				}
				a := testActor(t, torch.Float32)
				var st PolicyStats
				err := a.accumulatePolicy(t.Context(), rows, false, o, &st)
				must(t, err)
				g := gradients(t, a)
				if grad == nil {
					grad = g
				} else if d, tensor := relative(t, g, grad); d > 1e-5 {
					t.Errorf("%+v: the relative error of the gradient of %s is %.2g", micro, tensor, d)
				}
			}
		})
	}
}

// TestSumPiSquared checks that the sum of squared probabilities is taken over the whole
// distribution.
func TestSumPiSquared(t *testing.T) {
	a := testActor(t, torch.Float32)
	rows := trainRows(4)
	const temperature = .9
	must(t, SumPiSquared(t.Context(), a.Compute(), rows, MicroBatching{Rows: 2}, temperature))
	plain := trainRows(4)
	must(t, LogProbs(t.Context(), a.Compute(), plain, MicroBatching{}, temperature, OldLogProbs))
	must(t, torch.Run(t.Context(), a.Compute().Thread(), func(s *torch.Scope) error {
		s.NoGrad(func() {
			p, err := pack(plain, nil, false)
			must(t, err)
			pi := a.Compute().LMHead.Forward(p.hidden(s, a.Compute())).MulScalar(1 / temperature).LogSoftmax(-1).Exp()
			p.scatter(pi.Square().SumDim(-1, false).ToFloat32s(), func(r *data.Row) *[]float32 { return &r.SumPiSquared })
		})
		return nil
	}))
	n := 0
	for i := range rows {
		for j, m := range rows[i].Mask {
			want, got := float64(plain[i].SumPiSquared[j]), float64(rows[i].SumPiSquared[j])
			if math.Abs(got-want) > 1e-4*want || m == 1 && j > 0 && !(want > 0) {
				t.Errorf("row %d, token %d: the sum of squares is %g, want %g", i, j, got, want)
			}
			if d := rows[i].OldLogProbs[j] - plain[i].OldLogProbs[j]; math.Abs(float64(d)) > 1e-5 {
				t.Errorf("row %d, token %d: the log-prob differs by %g from a pass of LogProbs", i, j, d)
			}
			n += int(m)
		}
	}
	if n == 0 {
		t.Error("no token was compared")
	}
}

// TestMicroBatchingInBFloat16 checks that in bfloat16 micro-batching changes gradients only by the
// rounding of each pass, because they are summed in float32.
func TestMicroBatchingInBFloat16(t *testing.T) {
	var first map[string][]float32
	for _, c := range splits {
		a := testActor(t, torch.BFloat16)
		var st PolicyStats
		if err := a.accumulatePolicy(t.Context(), trainRows(8), true, policyOptions(c.micro), &st); err != nil {
			t.Fatal(err)
		}
		g := gradients(t, a)
		if first == nil {
			first = g
		} else if d, name := relative(t, g, first); d > 5e-2 {
			t.Errorf("%s: the relative error of the gradient of %s is %.2g", c.name, name, d)
		}
	}
}

// TestMiniBatchesUseTheOldLogProbs checks that the ratios of the second mini-batch are relative to
// the log-probs from before the update, although the first mini-batch has changed the policy.
func TestMiniBatchesUseTheOldLogProbs(t *testing.T) {
	o := policyOptions(MicroBatching{Rows: 2})
	o.EntropyCoef, o.KLCoef = 0, 0
	o.MiniBatch = 4
	const lr = 1e-2

	a := testActor(t, torch.Float32)
	rows := trainRows(8)
	if err := LogProbs(t.Context(), a.Compute(), rows, MicroBatching{Rows: 1}, o.Temperature, OldLogProbs); err != nil {
		t.Fatal(err)
	}
	old := make([][]float32, len(rows))
	for i := range rows {
		old[i] = append([]float32(nil), rows[i].OldLogProbs...)
	}
	st, err := a.UpdateActor(t.Context(), rows, lr, o)
	if err != nil {
		t.Fatal(err)
	}
	if st.Steps != 2 {
		t.Fatalf("%d optimiser steps, want 2", st.Steps)
	}
	for i := range rows {
		for j := range old[i] {
			if rows[i].OldLogProbs[j] != old[i][j] {
				t.Fatalf("the update changed the old log-prob of row %d, token %d", i, j)
			}
		}
	}

	// By hand: the first mini-batch at ratio 1, then the KL from the old policy to the updated one over the tokens of
	// the second mini-batch.
	b := testActor(t, torch.Float32)
	var sums PolicyStats
	if _, err := b.updateMiniBatch(t.Context(), rows[:4], lr, false, o, &sums); err != nil {
		t.Fatal(err)
	}
	first := sums.PPOKL
	moved := trainRows(8)[4:]
	if err := LogProbs(t.Context(), b.Compute(), moved, MicroBatching{Rows: 1}, o.Temperature, RefLogProbs); err != nil {
		t.Fatal(err)
	}
	moving := 0.0
	for i := range moved {
		for j, m := range moved[i].Mask {
			if m == 1 && j > 0 {
				moving += float64(old[4+i][j]) - float64(moved[i].RefLogProbs[j])
			}
		}
	}
	if math.Abs(first) > 1e-4 {
		t.Errorf("the first mini-batch has the KL %g to the policy before the update, want 0", first)
	}
	want := (first + moving) / float64(LossTokens(rows))
	if math.Abs(want) < 1e-4 {
		t.Fatalf("the first mini-batch changed the policy by only %g, too little to check", want)
	}
	if math.Abs(st.PPOKL-want) > 1e-5+1e-4*math.Abs(want) {
		t.Errorf("KL to the old policy is %g, want %g", st.PPOKL, want)
	}
}

// TestSingleMiniBatchIsOnPolicy checks that with one mini-batch the ratio is exactly 1 for any old
// log-probs in the rows.
func TestSingleMiniBatchIsOnPolicy(t *testing.T) {
	a := testActor(t, torch.Float32)
	st, err := a.UpdateActor(context.Background(), trainRows(8), 1e-3, vanillaOptions())
	if err != nil {
		t.Fatal(err)
	}
	if st.PPOKL != 0 || st.ClipFrac != 0 || st.Steps != 1 {
		t.Errorf("KL %g, clipped %g, %d steps; want 0, 0, 1", st.PPOKL, st.ClipFrac, st.Steps)
	}
}

// TestLogProbGap checks that the gap between sampling and training is measured with the weights
// from before the update, with one mini-batch and with several.
func TestLogProbGap(t *testing.T) {
	for _, size := range []int{0, 8, 4, 3} {
		a := testActor(t, torch.Float32)
		rows := trainRows(8)
		must(t, LogProbs(t.Context(), a.Compute(), rows, MicroBatching{}, 1, OldLogProbs))
		for i := range rows {
			for j := range rows[i].Tokens {
				rows[i].RolloutLogProbs[j] = rows[i].OldLogProbs[j] + .25
			}
		}
		o := vanillaOptions()
		o.MiniBatch = size
		st, err := a.UpdateActor(t.Context(), rows, 1e-2, o)
		must(t, err)
		if k3 := kl.K3(.25); math.Abs(st.Gap.Mean-.25) > 1e-4 || math.Abs(st.Gap.Max-.25) > 1e-4 || math.Abs(st.Gap.K3-k3) > 1e-4 {
			t.Errorf("mini-batches of %d: the gap is %+v, want 0.25 and a k3 of %g", size, st.Gap, k3)
		}
	}
}
