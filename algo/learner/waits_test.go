package learner

import (
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// TestWaitsOfUpdate counts on the protected device the copies to the host, for each of which a GPU's thread waits: one a
// micro-batch, for all statistics and the check of the loss.
func TestWaitsOfUpdate(t *testing.T) {
	th, err := torch.NewThread(torch.Device{Protected: true})
	must(t, err)
	t.Cleanup(th.Close)
	m, err := model.New(t.Context(), th, tinyConfig(), 11, torch.Float32)
	must(t, err)
	a, err := NewActor(t.Context(), m, torch.BFloat16, optim.DefaultAdamW())
	must(t, err)
	t.Cleanup(a.Close)
	for name, update := range map[string]func(micro MicroBatching) error{
		"policy": func(micro MicroBatching) error {
			o := policyOptions(micro)
			o.Entropy, o.EntropyCoef, o.KLCoef, o.KLType = true, .01, .1, "low_var_kl"
			_, err := a.UpdateActor(t.Context(), trainRows(3), 1e-3, o)
			return err
		},
		"supervised": func(micro MicroBatching) error {
			_, err := a.UpdateSFT(t.Context(), trainRows(3), 1e-3, 1, micro)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			downloads := func(rows int) int {
				before := torch.ProtectedCounts().Downloads
				must(t, update(MicroBatching{Rows: rows}))
				return torch.ProtectedCounts().Downloads - before
			}
			if one, three := downloads(3), downloads(1); three-one != 2 || one > 2 {
				t.Errorf("%d copies to the host with one micro-batch and %d with three, want one a micro-batch and one for the norm", one, three)
			}
		})
	}
}
