package learner

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/torch"
)

// TestUpdateWithOtherWorkInBetween checks that forward passes without gradients between the micro-batches of an update, such as
// the steps of the engine, do not change the update, and that none of them runs inside AroundStep.
func TestUpdateWithOtherWorkInBetween(t *testing.T) {
	for _, compute := range []torch.DType{torch.Float32, torch.BFloat16} {
		for _, checkpointing := range []bool{false, true} {
			update := func(disturbed bool) map[string][]float32 {
				a := testActor(t, compute)
				a.SetGradientCheckpointing(checkpointing)
				var weightsMu sync.RWMutex
				a.AroundStep(func(_ context.Context, change func() error) error {
					weightsMu.Lock()
					defer weightsMu.Unlock()
					return change()
				})
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				passes := 0
				if disturbed {
					rows := trainRows(3)
					ready := make(chan struct{})
					wg.Go(func() {
						for ; ctx.Err() == nil; passes++ {
							weightsMu.RLock()
							err := LogProbs(t.Context(), a.Compute(), rows, MicroBatching{}, 1, OldLogProbs)
							weightsMu.RUnlock()
							if err != nil {
								t.Error(err)
								break
							}
							if passes == 0 {
								close(ready)
							}
						}
					})
					<-ready
				}
				o := PolicyOptions{Loss: "vanilla", LossOptions: clipHigher(), Temperature: 1, GradClip: 1, Agg: loss.TokenMean, MiniBatch: 4, Micro: MicroBatching{Rows: 1}}
				_, err := a.UpdateActor(t.Context(), trainRows(8), 1e-3, o)
				stop()
				wg.Wait()
				must(t, err)
				if disturbed && passes < 4 {
					t.Errorf("%d passes ran during the update, want several", passes)
				}
				return weights(t, a)
			}
			if d := cmp.Diff(update(false), update(true)); d != "" {
				t.Errorf("%s, checkpointing %v: the weights differ:\n%.500s", compute, checkpointing, d)
			}
		}
	}
}
