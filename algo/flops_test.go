package algo

import (
	"math"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
)

// The count is that of the weights there are, and of the formula by hand.
func TestModelCost(t *testing.T) {
	rows := []data.Row{
		{Tokens: make([]int32, 3), Mask: []uint8{0, 1, 1}},
		{Tokens: make([]int32, 5), Mask: []uint8{0, 0, 0, 0, 1}},
	}
	a := testActor(t, torch.Float32)
	linear := 0.0
	for _, p := range a.master.Params() {
		if strings.HasSuffix(p.Name, "_proj.weight") {
			linear += float64(p.Tensor.Numel())
		}
	}
	c := costOf(a.master, tinyVocab)
	if c.linear != linear || c.linear != 15360 {
		t.Errorf("%v weights are multiplied, the layers have %v", c.linear, linear)
	}
	// 2·15360·8 + 2·32·258·3 + 2·(2·4·8)·(3² + 5²)
	if got := c.forward(rows); got != 245760+49536+4352 {
		t.Errorf("forward: %v", got)
	}
	if got := c.update(rows, Passes{}); got != 3*c.forward(rows) {
		t.Errorf("update: %v of %v forward", got, c.forward(rows))
	}
	if got := c.update(rows, Passes{Epochs: 2}); got != 6*c.forward(rows) {
		t.Errorf("two passes: %v of %v forward", got, c.forward(rows))
	}
	if got := costOf(a.master, 1).forward(rows); got != 245760+2*32*3+4352 {
		t.Errorf("a critic's forward: %v", got)
	}
	// Two layers with adapters of rank 3 on q_proj (32 to 32) and up_proj (32 to 48).
	c = costOf(actorOf(t, torch.Float32, dropping).master, tinyVocab)
	if c.adapters != 2*3*(32+32+32+48) {
		t.Errorf("the adapters have %v weights", c.adapters)
	}
	if got := c.update(rows, Passes{}); got != 2*(245760+49536)+3*(2*864*8+4352) {
		t.Errorf("update of adapters: %v", got)
	}
}

// A run that knows the peak reports what its phases computed; one that does
// not, nothing.
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
	c := costOf(testActor(t, torch.Float32).master, tinyVocab)
	tokens, sampled := m["rollout/tokens"], m["rollout/sampled_tokens"]
	without := 2*c.linear*tokens + 2*c.output*sampled
	least, most := without+2*c.attention*tokens*m["episode/length/min"], without+2*c.attention*tokens*m["episode/length/max"]
	if rollout < least*(1-1e-9) || rollout > most*(1+1e-9) {
		t.Errorf("playing %v tokens computed %v, want %v to %v", tokens, rollout, least, most)
	}
	// All that was played is learned from.
	if math.Abs(actor/rollout-3) > 1e-6 {
		t.Errorf("the update computed %v, playing %v", actor, rollout)
	}
	if saved := 6 * (c.output - 32) * sampled; math.Abs(actor-critic-saved) > 1e-6*actor {
		t.Errorf("the actor computed %v, the critic %v: want %v apart", actor, critic, saved)
	}
	for name := range fit(0) {
		if strings.HasPrefix(name, "perf/mfu") {
			t.Errorf("%s without a peak", name)
		}
	}
}
