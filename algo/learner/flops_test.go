package learner

import (
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
)

// TestModelCost compares the number of weights with the model's count, and the FLOPs with the formula computed by hand.
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
	c := CostOf(a.master, tinyVocab)
	if c.linear != linear || c.linear != 15360 {
		t.Errorf("%v weights are counted, want %v as in the layers", c.linear, linear)
	}
	// 2·15360·8 + 2·32·258·3 + 2·(2·4·8)·(3² + 5²)
	if got := c.Forward(rows); got != 245760+49536+4352 {
		t.Errorf("Forward = %v, want 245760 + 49536 + 4352", got)
	}
	if got := c.Update(rows, Passes{}); got != 3*c.Forward(rows) {
		t.Errorf("Update = %v, want 3 times Forward = %v", got, c.Forward(rows))
	}
	if got := c.Update(rows, Passes{Epochs: 2}); got != 6*c.Forward(rows) {
		t.Errorf("Update of two passes = %v, want 6 times Forward = %v", got, c.Forward(rows))
	}
	if got := CostOf(a.master, 1).Forward(rows); got != 245760+2*32*3+4352 {
		t.Errorf("Forward of a critic = %v, want 245760 + 192 + 4352", got)
	}
	// Two layers with adapters of rank 3 on q_proj (32 to 32) and up_proj (32 to 48).
	c = CostOf(actorOf(t, torch.Float32, dropping).master, tinyVocab)
	if c.adapters != 2*3*(32+32+32+48) {
		t.Errorf("%v weights of adapters are counted, want 864", c.adapters)
	}
	if got := c.Update(rows, Passes{}); got != 2*(245760+49536)+3*(2*864*8+4352) {
		t.Errorf("Update with adapters = %v, want 2 (245760 + 49536) + 3 (13824 + 4352)", got)
	}
}
