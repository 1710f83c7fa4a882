package model

import (
	"context"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/dist/disttest"
	"github.com/openmanus/openmanus/torch/nn"
	"github.com/openmanus/openmanus/torch/shard"
)

// TestGradientsByLayer checks that the backward pass at level shard.Gradients holds the gradients of one layer at a time, and that their
// sums over the ranks have the bits of one pass through the whole graph whose gradients are summed at its end.
func TestGradientsByLayer(t *testing.T) {
	if onRewind != nil {
		t.Fatal("onRewind is set")
	}
	onRewind = func(m *Model) { // before the backward pass of each layer
		for i, w := range m.declared.weights {
			held := m.sharded.at[i].unit
			if held > embedding && held <= len(m.Layers) && !w.field.Grad().None() {
				t.Errorf("the gradient of %s is held while other layers are computed", w.name)
			}
		}
	}
	defer func() { onRewind = nil }()
	for _, c := range []Config{wide("llama", 8, true), wide("qwen3", 2, false)} {
		for _, compute := range []torch.DType{torch.Float32, torch.BFloat16} {
			disttest.Run(t, 2, func(th *torch.Thread, g *dist.Group) error {
				m, err := New(t.Context(), th, c, 3, torch.Float32)
				if err != nil {
					return err
				}
				defer m.Close()
				if err := m.Shard(t.Context(), shard.Options{Group: g, Level: shard.Gradients, Compute: compute}); err != nil {
					return err
				}
				return torch.Run(t.Context(), th, func(s *torch.Scope) error {
					m.SetTrainable(true)
					var want [][]float64
					for _, byLayer := range []bool{false, true} {
						for i := range 2 {
							row := someIDs(7+4*g.Rank(), i)
							idle := g.Rank() == 1 && i == 1 // a rank without rows in the second micro-batch
							if err := m.gradients(s, row, byLayer, idle); err != nil {
								return err
							}
						}
						for k, u := range m.TrainedUnits() {
							got := u.Grads().ToFloat64s()
							if !byLayer {
								want = append(want, got)
							} else if !slices.Equal(got, want[k]) {
								t.Errorf("rank %d, %s in %v: the gradients of unit %d differ", g.Rank(), c.ModelType, compute, k)
							}
						}
						m.DropGrads()
					}
					return nil
				})
			})
		}
	}
}

// gradients adds the gradients of a sequence, which are 0 if idle, to those of this rank's shard.
func (m *Model) gradients(s *torch.Scope, row []int32, byLayer, idle bool) (err error) {
	s.Do(func(s *torch.Scope) {
		tokens, positions, offsets := Pack(row)
		var hidden torch.Tensor
		if byLayer {
			hidden = m.Forward(s, tokens, positions, offsets)
		} else {
			p := m.newPass(s, positions)
			p.Offsets = offsets
			hidden = m.run(s, func() torch.Tensor { return m.embed(s, tokens) }, func(int) *nn.Pass { return &p })
		}
		logp, entropy := m.TokenLogProbs(hidden, NextTokens(tokens, offsets), nil, 1, true)
		l := logp.Sum().Add(entropy.Square().Sum())
		switch {
		case byLayer && idle:
			m.Backward(s, l.MulScalar(0))
		case byLayer:
			m.Backward(s, l)
		case !idle:
			l.Backward()
		}
		err = m.TakeGrads(context.Background(), s)
	})
	return err
}

// someIDs returns n tokens that depend on i.
func someIDs(n, i int) []int32 {
	list := make([]int32, n)
	for k := range list {
		list[k] = int32((17*k + 5*i + 3) % 301)
	}
	return list
}
