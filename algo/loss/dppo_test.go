package loss

import (
	"testing"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// Tokens whose probability is or was 1 in float32, as of a sharp model or of one
// kept token, are judged by how far they moved: verl's compute_policy_loss_dppo_kl
// gives the same in float32.
func TestDPPOOfCertainTokens(t *testing.T) {
	for _, c := range []struct {
		name     string
		now, old float32
		adv      float32
		moved    bool
	}{
		{"certain then and now", 0, 0, -1, false},
		{"certain then, a little less now", -1e-6, 0, -1, false},
		{"certain then, no more now", -3, 0, -1, true},
		{"nearly certain then, certain now", 0, -1e-6, 1, false},
		{"rare then, certain now", 0, -3, 1, true},
	} {
		for _, name := range []string{"dppo_tv", "dppo_kl"} {
			t.Run(name+", "+c.name, func(t *testing.T) {
				torchtest.Run(t, func(s *torch.Scope) {
					p, err := Policies.Lookup(name)
					if err != nil {
						t.Fatal(err)
					}
					b := Batch{LogP: s.Float32s([]float32{c.now}, 1), Old: s.Float32s([]float32{c.old}, 1), Adv: s.Float32s([]float32{c.adv}, 1), Lens: []int{1}}
					if _, sums := p.Loss(s, b, Options{Params: registry.Values{"clip_ratio_low": .1, "clip_ratio_high": .15, "clip_ratio_c": 20.0}}); (sums.ClipFrac == 1) != c.moved {
						t.Errorf("%g tokens are out of the loss", sums.ClipFrac)
					}
				})
			})
		}
	}
}
