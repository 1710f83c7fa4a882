package algo

import (
	"math"
	"testing"

	"github.com/openmanus/openmanus/algo/correction"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// TestInt8Sampling trains on episodes that int8 copies of the weights have sampled: every step reports the gap to the log-probs of
// training, which stays small because the copies follow the updates, and the correction weighs the tokens by it.
func TestInt8Sampling(t *testing.T) {
	if !torchtest.Device(t).IsCPU() {
		t.Skip("int8 weights are for the CPU")
	}
	gap := func(int8 bool) []float64 {
		r := quick(t, func(o *Options) {
			o.Correction = Correction{Weights: &correction.Weights{Level: "token", Cap: 2}}
		})
		r.steps, r.int8 = 3, int8
		must(t, r.fit(t, t.Context(), t.Context()))
		var gaps []float64
		for step := 1; step <= r.steps; step++ {
			m := r.lines(t)[step]
			gaps = append(gaps, m["rollout/logprob_gap_mean"])
			if w, ok := m["rollout_corr/rollout_is_mean"]; !ok || !(w > 0.5 && w < 2) || int8 == (math.Abs(w-1) < 1e-6) {
				t.Errorf("int8 %t, step %d: the mean importance weight is %v", int8, step, w)
			}
		}
		return gaps
	}
	exact, int8 := gap(false), gap(true)
	for i := range int8 {
		if !(exact[i] < 1e-5) || !(int8[i] > 100*exact[i] && int8[i] < 0.05) {
			t.Errorf("step %d: the gap is %v with int8 weights and %v without, want a larger but small number", i+1, int8[i], exact[i])
		}
	}
}
