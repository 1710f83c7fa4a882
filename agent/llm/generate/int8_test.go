package generate

import (
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/dist/disttest"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// TestInt8 samples with int8 weights: the log-probs differ a little from those of training, hardly depend on how a prompt is divided,
// and follow the weights of a new version. Training keeps its weights and its log-probs.
func TestInt8(t *testing.T) {
	if !torchtest.Device(t).IsCPU() {
		t.Skip("int8 weights are for the CPU")
	}
	for dt, limit := range map[torch.DType]float64{torch.Float32: 1e-3, torch.BFloat16: 0.05} {
		t.Run(dt.String(), func(t *testing.T) {
			m := openNamed(t, torch.Device{}, "llama-tied", dt)
			prompt := ids(100, 1)
			trained := func(seq []int32) []float32 {
				t.Helper()
				lps, err := m.LogProbs(t.Context(), 1, seq)
				if err != nil {
					t.Fatal(err)
				}
				return lps[0]
			}
			before := trained(prompt)
			b := newBackend(t, m, Options{KVTokens: 512, BlockSize: 16, Int8: true})
			sample := func() (tokens []int32, logps []float32) {
				t.Helper()
				tokens, logps = rollout(t, b, 1, prompt, 100, 20, 1)
				b.Drop(1)
				if gap := meanDifference(trained(slices.Concat(prompt, tokens))[len(prompt)-1:], logps); !(gap > 1e-5 && gap < 0.1) {
					t.Errorf("the log-probs of sampling and training differ by %v on average, want a small positive number", gap)
				}
				return tokens, logps
			}
			tokens, logps := sample()
			for _, chunk := range []int{7, 1} {
				again, same := rollout(t, b, 1, prompt, chunk, 20, 1)
				b.Drop(1)
				if d := meanDifference(same, logps); !slices.Equal(again, tokens) || !(d <= limit) {
					t.Errorf("chunks of %d tokens give the reply %v, want %v; the log-probs differ by %v", chunk, again, tokens, d)
				}
			}
			if !slices.Equal(before, trained(prompt)) {
				t.Error("sampling with int8 weights changed the log-probs of training")
			}
			err := torch.Run(t.Context(), m.Thread(), func(s *torch.Scope) error {
				s.NoGrad(func() {
					for _, p := range m.Params() {
						if p.Tensor.DType() != dt {
							t.Errorf("%s is %v after sampling, want %v", p.Name, p.Tensor.DType(), dt)
						}
						p.Tensor.Copy_(p.Tensor.MulScalar(0.5))
					}
				})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			b.SetVersion(1)
			if _, renewed := sample(); slices.Equal(renewed, logps) {
				t.Error("new weights did not change the log-probs of sampling")
			}
		})
	}
}

func meanDifference(a, b []float32) (mean float64) {
	for i := range b {
		mean += math.Abs(float64(a[i]-b[i])) / float64(len(b))
	}
	return mean
}

// TestInt8NeedsAWholeModel checks that a part of a tensor-parallel model is refused.
func TestInt8NeedsAWholeModel(t *testing.T) {
	dir := saveWide(t)
	disttest.Run(t, 2, func(th *torch.Thread, g *dist.Group) error {
		b, err := model.Open(t.Context(), th, dir, model.Options{TokenizerOptional: true, Ranks: g})
		if err != nil {
			return err
		}
		defer b.Close()
		if backend, err := New(t.Context(), b.Model, Options{KVTokens: 64, Int8: true}); err == nil {
			backend.Close()
			t.Errorf("rank %d samples with int8 weights of its part", g.Rank())
		}
		return nil
	})
}
