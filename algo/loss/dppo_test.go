package loss

import (
	"testing"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// TestDPPOAtProbabilityOne checks that a token whose old or new probability is 1 in float32, as for
// a sharp distribution or a single kept token, is masked by the change of its probability. verl's
// compute_policy_loss_dppo_kl gives the same result in float32.
func TestDPPOAtProbabilityOne(t *testing.T) {
	for _, c := range []struct {
		name     string
		now, old float32
		adv      float32
		moved    bool
	}{
		{"1 before and after", 0, 0, -1, false},
		{"1 before, slightly less after", -1e-6, 0, -1, false},
		{"1 before, much less after", -3, 0, -1, true},
		{"nearly 1 before, 1 after", 0, -1e-6, 1, false},
		{"rare before, 1 after", 0, -3, 1, true},
	} {
		for _, name := range []string{"dppo_tv", "dppo_kl"} {
			t.Run(name+", "+c.name, func(t *testing.T) {
				torchtest.Run(t, func(s *torch.Scope) {
					p, err := Policies.Lookup(name)
					if err != nil {
						t.Fatal(err)
					}
					b := Batch{LogP: s.Float32s([]float32{c.now}, 1), Old: s.Float32s([]float32{c.old}, 1), Adv: s.Float32s([]float32{c.adv}, 1), Lens: []int{1}}
					if _, sums := p.Loss(s, b, Options{Params: registry.Values{"clip_ratio_low": .1, "clip_ratio_high": .15, "clip_ratio_c": 20.0}}); (valueOf(sums.ClipFrac) == 1) != c.moved {
						t.Errorf("%g tokens are masked, want 1 only if the probability changed", valueOf(sums.ClipFrac))
					}
				})
			})
		}
	}
}
