package model

import (
	"context"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/dist/disttest"
	"github.com/openmanus/openmanus/torch/shard"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// TestQuantizeInt8 checks that generation reads the int8 copies in every layer and in the head, that adapters stay exact on them, that
// copies are renewed, and that training does not read them.
func TestQuantizeInt8(t *testing.T) {
	if !torchtest.Device(t).IsCPU() {
		t.Skip("int8 weights are for the CPU")
	}
	ctx := context.Background()
	th := newThread(t)
	for _, name := range tiny {
		t.Run(name, func(t *testing.T) {
			m := openTiny(t, th, name, torch.Float32)
			for _, adapted := range []bool{false, true} {
				if adapted {
					adapt(t, m, LoRA{Rank: 3, Alpha: 6, Targets: []string{AllLinear}})
				}
				trained := loraLogProbs(t, m)
				decode := func() []float64 {
					got, err := m.DecodeLogProbs(ctx, 1, loraIDs[0], 3)
					if err != nil {
						t.Fatal(err)
					}
					return widen(got)
				}
				quantize := func() { run(t, th, m.QuantizeInt8) }
				quantize()
				first := decode()
				if d := maxAbsDiff(first, trained[:len(first)]); !(d > 1e-5 && d < 0.4) {
					t.Errorf("adapters %t: the log-probs of int8 weights differ by up to %v, want a small positive number", adapted, d)
				}
				if d := maxAbsDiff(loraLogProbs(t, m), trained); d != 0 {
					t.Errorf("adapters %t: the log-probs of training changed by %v", adapted, d)
				}
				for _, l := range m.declared.linears {
					if l.l.Int8 == nil {
						t.Errorf("%s has no int8 copy", l.name)
					}
				}
				run(t, th, func(s *torch.Scope) {
					for _, rows := range []int{1, torch.SkinnyRows + 1} {
						x := s.RandN(1, rows, m.Config.HiddenSize)
						s.NoGrad(func() {
							got, want := m.Logits(x).ToFloat64s(), m.AllLogits(x).ToFloat64s()
							if d := maxAbsDiff(got, want); !(d > 1e-6 && d < 0.4) {
								t.Errorf("%d logits of the int8 head differ by up to %v, want a small positive number", len(want), d)
							}
						})
					}
					s.NoGrad(func() {
						for _, p := range m.Params() {
							p.Tensor.Copy_(p.Tensor.MulScalar(0.5))
						}
					})
				})
				quantize()
				renewed := decode()
				m.DropInt8()
				if exact, want := decode(), loraLogProbs(t, m)[:len(first)]; maxAbsDiff(exact, want) > 1e-4 {
					t.Errorf("adapters %t: without int8 copies the log-probs are %v, want %v", adapted, exact, want)
				}
				if want := loraLogProbs(t, m)[:len(first)]; !(maxAbsDiff(renewed, want) < 0.4) || maxAbsDiff(renewed, first) == 0 {
					t.Errorf("adapters %t: after a change of the weights the log-probs are %v, want about %v", adapted, renewed, want)
				}
			}
		})
	}
}

// TestQuantizeInt8OfShards checks that the int8 copies of sharded weights are those of the whole weights.
func TestQuantizeInt8OfShards(t *testing.T) {
	if !torchtest.Device(t).IsCPU() {
		t.Skip("int8 weights are for the CPU")
	}
	disttest.Run(t, 2, func(th *torch.Thread, g *dist.Group) error {
		for _, c := range []Config{wide("llama", 8, true), wide("qwen3", 2, false)} {
			var logps [2][]float32
			for i := range logps {
				m, err := New(t.Context(), th, c, 3, torch.Float32)
				if err != nil {
					return err
				}
				defer m.Close()
				if i == 1 {
					if err := m.Shard(t.Context(), shard.Options{Group: g, Level: shard.Weights, Compute: torch.Float32}); err != nil {
						return err
					}
				}
				if err := torch.Run(t.Context(), th, func(s *torch.Scope) error { m.QuantizeInt8(s); return nil }); err != nil {
					return err
				}
				if logps[i], err = m.DecodeLogProbs(t.Context(), 1, someIDs(9, 0), 3); err != nil {
					return err
				}
			}
			if !slices.Equal(logps[0], logps[1]) {
				t.Errorf("rank %d, %s: the log-probs are %v with sharded weights and %v with whole ones", g.Rank(), c.ModelType, logps[1], logps[0])
			}
		}
		return nil
	})
}
