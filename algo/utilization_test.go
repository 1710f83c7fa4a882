package algo

import (
	"math"
	"strings"
	"testing"
)

// TestUtilization checks that a run reports the utilisation of its phases only if the peak
// throughput of the device is known.
func TestUtilization(t *testing.T) {
	const peak = 1e9
	fit := func(peak float64) Metrics {
		r := quick(t, func(o *Options) {
			o.Estimator, o.Critic, o.PeakFLOPS = "gae", criticOptions(), peak
		})
		must(t, r.fit(t, t.Context(), t.Context()))
		return r.lines(t)[1]
	}
	m := fit(peak)
	did := func(of, phase string) float64 { return m["perf/mfu/"+of] * m["timing_s/"+phase] * peak }
	rollout, actor, critic := did("rollout", "gen"), did("actor", "update_actor"), did("critic", "update_critic")
	const ( // sizes of the tiny model
		linear    = 15360          // weights of the linear layers
		output    = 32 * tinyVocab // weights of the output layer
		attention = 2 * 4 * 8      // layers, heads, width of a head
	)
	tokens, sampled := m["rollout/tokens"], m["rollout/sampled_tokens"]
	without := 2*linear*tokens + 2*output*sampled
	least, most := without+2*attention*tokens*m["episode/length/min"], without+2*attention*tokens*m["episode/length/max"]
	if rollout < least*(1-1e-9) || rollout > most*(1+1e-9) {
		t.Errorf("playing %v tokens took %v operations, want %v to %v", tokens, rollout, least, most)
	}
	// Training uses every token that was played.
	if math.Abs(actor/rollout-3) > 1e-6 {
		t.Errorf("the update took %v operations, want 3 times the %v of playing", actor, rollout)
	}
	if saved := 6 * (output - 32) * sampled; math.Abs(actor-critic-saved) > 1e-6*actor {
		t.Errorf("the actor took %v operations and the critic %v, want a difference of %v", actor, critic, saved)
	}
	for name := range fit(0) {
		if strings.HasPrefix(name, "perf/mfu") {
			t.Errorf("%s is reported although the peak is unknown", name)
		}
	}
}
