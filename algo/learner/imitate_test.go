package learner

import (
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

// TestImitate checks that Imitate does the same as UpdateSFT on one mini-batch after another.
func TestImitate(t *testing.T) {
	o := vanillaOptions()
	o.MiniBatch, o.Passes.Epochs, o.Micro = 3, 2, MicroBatching{Rows: 2}
	a, b := testActor(t, torch.Float32), testActor(t, torch.Float32)
	st, err := a.Imitate(t.Context(), trainRows(6), 1e-2, o)
	must(t, err)
	loss, tokens := 0.0, 0
	for range 2 {
		for mini := range slices.Chunk(trainRows(6), 3) {
			one, err := b.UpdateSFT(t.Context(), mini, 1e-2, o.GradClip, o.Micro)
			must(t, err)
			loss += one.Loss * float64(one.Tokens)
			tokens += one.Tokens
		}
	}
	if st.Steps != 4 || st.Loss != loss/float64(tokens) {
		t.Errorf("stats %+v, want 4 steps and the loss %g", st, loss/float64(tokens))
	}
	if d, name := relative(t, weights(t, a), weights(t, b)); d != 0 {
		t.Errorf("%s differs by %g from steps of UpdateSFT", name, d)
	}
}
