package model

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/torch"
)

// Shadow copies the model to dtype dt. A copy is used for the bfloat16 passes
// of a float32 model in training, or as a frozen reference.
func (m *Model) Shadow(ctx context.Context, dt torch.DType) (*Model, error) {
	c, err := m.Deferred(dt)
	if c, err = loaded(ctx, c, err); err == nil && m.deferred != nil && m.deferred.failed != nil {
		c.Close()
		return nil, m.deferred.failed
	}
	return c, err
}

// checkCopy returns an error if m cannot be copied.
func (m *Model) checkCopy() error {
	if m.lora != nil {
		return errors.New("a model with adapters cannot be shadowed; adapters are float32 on weights of any dtype")
	}
	if err := m.errTensorParallel(); err != nil {
		return fmt.Errorf("copy the model: %w", err)
	}
	return nil
}

// CopyFrom overwrites the trained parameters with the parameters of src,
// converted to m's dtype. Both models have the same configuration and
// adapters. It runs inside torch.Run.
func (m *Model) CopyFrom(s *torch.Scope, src *Model) {
	if m.lora == nil && (m.weightsSharded() || src.weightsSharded()) {
		m.CopyWeights(s, src)
		return
	}
	to, from := pairs(m.Trained(), src.Trained())
	s.NoGrad(func() { torch.CopyAll(to, from) })
}

// CopyWeights overwrites the weights with the sums of src's weights and the
// updates of src's adapters. Both models have the same configuration; m's
// adapters do not change. If m is tensor parallel, it gets its parts of src, which is whole or sharded.
// It runs inside torch.Run.
func (m *Model) CopyWeights(s *torch.Scope, src *Model) {
	if len(m.declared.weights) != len(src.declared.weights) {
		panic(fmt.Sprintf("model: %d parameters cannot be paired with %d", len(m.declared.weights), len(src.declared.weights)))
	}
	s.NoGrad(func() {
		for i := range m.declared.weights {
			s.Do(func(s *torch.Scope) { m.setValue(i, m.part(s, m.declared.weights[i].name, src.merged(s, i))) })
		}
	})
	m.refresh(s)
}

// MoveGrads adds the gradients of a shadow to the gradients of m and clears
// them in the shadow, so that sums over micro-batches have m's dtype. It runs
// inside torch.Run.
func (m *Model) MoveGrads(s *torch.Scope, shadow *Model) {
	to, from := pairs(m.Trained(), shadow.Trained())
	s.Do(func(s *torch.Scope) {
		s.NoGrad(func() {
			var sums, added, fresh, first []torch.Tensor
			for i := range to {
				g, sum := from[i].Grad(), to[i].Grad()
				switch {
				case g.None():
				case sum.None():
					sum = s.Empty(to[i].DType(), to[i].Shape()...)
					to[i].SetGrad(sum)
					fresh, first = append(fresh, sum), append(first, g)
				default:
					sums, added = append(sums, sum), append(added, g)
				}
			}
			torch.AddAll(sums, added)
			torch.CopyAll(fresh, first)
			for _, p := range from {
				p.ZeroGrad()
			}
		})
	})
}

// pairs returns the tensors of equally many parameters.
func pairs(to, from []Param) (ts, fs []torch.Tensor) {
	if len(to) != len(from) {
		panic(fmt.Sprintf("model: %d parameters cannot be paired with %d", len(to), len(from)))
	}
	for i := range to {
		ts, fs = append(ts, to[i].Tensor), append(fs, from[i].Tensor)
	}
	return ts, fs
}

// To moves the weights to a device. The weights can be used only on the
// thread's device. It runs inside torch.Run. It panics for views (Base,
// Frozen), which share their weights, and for models with adapters.
func (m *Model) To(s *torch.Scope, d torch.Device) {
	if m.weightsSharded() {
		for _, u := range m.sharded.units {
			u.To(s, d)
		}
		return
	}
	if m.owner == nil || m.lora != nil {
		panic("model: To cannot move the weights of a view or of a model with adapters")
	}
	var list []*torch.Tensor
	for _, w := range m.declared.weights {
		list = append(list, w.field)
	}
	moved := m.EmbedTokens.Weight.Device() != d
	m.owner.To(s, d, list...)
	if moved && !d.IsCPU() {
		m.adjoin(s)
	}
	m.tie()
}
