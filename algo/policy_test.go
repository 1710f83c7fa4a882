package algo

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
)

// splits are ways to cut rows into passes; none of them may show in a result.
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

func policyOptions(micro MicroBatching) PolicyOptions {
	return PolicyOptions{
		Micro: micro, ClipLow: .2, ClipHigh: .28, ClipC: 3, EntropyCoef: .01, KLCoef: .1, KLType: "k3",
		Temperature: .9, GradClip: 1,
	}
}

// The gradient and the updated weights do not depend on micro-batching, with
// every term of the loss switched on, on and off policy.
func TestMicroBatchingDoesNotChangeTheUpdate(t *testing.T) {
	for _, onPolicy := range []bool{true, false} {
		var grad, updated map[string][]float32
		var stats PolicyStats
		for _, c := range splits {
			a := newActor(t, torch.Float32)
			var st PolicyStats
			if _, err := a.accumulatePolicy(t.Context(), trainRows(8), onPolicy, policyOptions(c.micro), &st); err != nil {
				t.Fatal(err)
			}
			g := gradients(t, a)
			if _, err := a.step(t.Context(), 1e-3, 1); err != nil {
				t.Fatal(err)
			}
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

// A computation in bfloat16 sums its gradients in float32, so micro-batching
// moves them by no more than the rounding of each pass.
func TestMicroBatchingInBFloat16(t *testing.T) {
	var first map[string][]float32
	for _, c := range splits {
		a := newActor(t, torch.BFloat16)
		var st PolicyStats
		if _, err := a.accumulatePolicy(t.Context(), trainRows(8), true, policyOptions(c.micro), &st); err != nil {
			t.Fatal(err)
		}
		g := gradients(t, a)
		if first == nil {
			first = g
		} else if d, name := relative(t, g, first); d > 5e-2 {
			t.Errorf("%s: gradient of %s is off by %.2g", c.name, name, d)
		}
	}
}

// After the first of several mini-batches the policy has moved: the second is
// measured against the log-probs from before, not against its own.
func TestMiniBatchesUseTheOldLogProbs(t *testing.T) {
	o := policyOptions(MicroBatching{Rows: 2})
	o.EntropyCoef, o.KLCoef = 0, 0
	o.MiniBatch = 4
	const lr = 1e-2

	a := newActor(t, torch.Float32)
	rows := trainRows(8)
	before := func(r *data.Row) *[]float32 { return &r.OldLogProbs }
	if err := LogProbs(t.Context(), a.Compute(), rows, MicroBatching{Rows: 1}, o.Temperature, before); err != nil {
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

	// The same by hand: the first mini-batch at ratio 1, then the KL between the
	// old policy and the one that it left, over the second's tokens.
	b := newActor(t, torch.Float32)
	var sums PolicyStats
	if _, err := b.updateMiniBatch(t.Context(), rows[:4], lr, false, o, &sums); err != nil {
		t.Fatal(err)
	}
	first := sums.PPOKL
	moved := trainRows(8)[4:]
	now := func(r *data.Row) *[]float32 { return &r.RefLogProbs }
	if err := LogProbs(t.Context(), b.Compute(), moved, MicroBatching{Rows: 1}, o.Temperature, now); err != nil {
		t.Fatal(err)
	}
	kl := 0.0
	for i := range moved {
		for j, m := range moved[i].Mask {
			if m == 1 && j > 0 {
				kl += float64(old[4+i][j]) - float64(moved[i].RefLogProbs[j])
			}
		}
	}
	if math.Abs(first) > 1e-4 {
		t.Errorf("the first mini-batch has a KL of %g to the policy it starts from", first)
	}
	want := (first + kl) / float64(maskedTokens(rows))
	if math.Abs(want) < 1e-4 {
		t.Fatalf("the first mini-batch moved the policy by %g only: nothing to see", want)
	}
	if math.Abs(st.PPOKL-want) > 1e-5+1e-4*math.Abs(want) {
		t.Errorf("KL to the old policy is %g, want %g", st.PPOKL, want)
	}
}

// With one mini-batch the ratio is exactly 1, whatever the rows say.
func TestSingleMiniBatchIsOnPolicy(t *testing.T) {
	a := newActor(t, torch.Float32)
	st, err := a.UpdateActor(context.Background(), trainRows(8), 1e-3, PolicyOptions{ClipLow: .2, ClipHigh: .2, ClipC: 3, Temperature: 1, GradClip: 1})
	if err != nil {
		t.Fatal(err)
	}
	if st.PPOKL != 0 || st.ClipFrac != 0 || st.Steps != 1 {
		t.Errorf("KL %g, clipped %g, %d steps; want 0, 0, 1", st.PPOKL, st.ClipFrac, st.Steps)
	}
}

// The gap between sampling and training is that of the weights which sampled,
// in one mini-batch as in several.
func TestLogProbGap(t *testing.T) {
	for _, size := range []int{0, 8, 4, 3} {
		a := newActor(t, torch.Float32)
		rows := trainRows(8)
		before := func(r *data.Row) *[]float32 { return &r.OldLogProbs }
		must(t, LogProbs(t.Context(), a.Compute(), rows, MicroBatching{}, 1, before))
		for i := range rows {
			for j := range rows[i].Tokens {
				rows[i].RolloutLogProbs[j] = rows[i].OldLogProbs[j] + .25
			}
		}
		o := PolicyOptions{MiniBatch: size, ClipLow: .2, ClipHigh: .2, ClipC: 3, Temperature: 1, GradClip: 1}
		st, err := a.UpdateActor(t.Context(), rows, 1e-2, o)
		must(t, err)
		if k3 := KLEstimate("k3", .25); math.Abs(st.Gap.Mean-.25) > 1e-4 || math.Abs(st.Gap.Max-.25) > 1e-4 || math.Abs(st.Gap.K3-k3) > 1e-4 {
			t.Errorf("mini-batches of %d: the gap is %+v, want 0.25 and a k3 of %g", size, st.Gap, k3)
		}
	}
}
