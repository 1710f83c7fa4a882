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
	if m.lora != nil {
		return nil, errors.New("a model with adapters cannot be shadowed; adapters are float32 on weights of any dtype")
	}
	if err := m.errCut(); err != nil {
		return nil, fmt.Errorf("copy the model: %w", err)
	}
	return build(ctx, m.thread, m.Config, dt, func(s *torch.Scope, i int, _ weight) (v torch.Tensor, err error) {
		s.NoGrad(func() { v = m.value(s, i).Clone() })
		return v, nil
	})
}

// CopyFrom overwrites the trained parameters with the parameters of src,
// converted to m's dtype. Both models have the same configuration and
// adapters. It runs inside torch.Run.
func (m *Model) CopyFrom(s *torch.Scope, src *Model) {
	if m.lora == nil && (m.divided() || src.divided()) {
		m.CopyWeights(s, src)
		return
	}
	forPairs(s, m.Trained(), src.Trained(), func(to, from Param) { to.Tensor.Copy_(from.Tensor) })
}

// CopyWeights overwrites the weights with the sums of src's weights and the
// updates of src's adapters. Both models have the same configuration; m's
// adapters do not change. If m is cut, it gets its parts of src, which is whole.
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
	forPairs(s, m.Trained(), shadow.Trained(), func(to, from Param) { moveGrad(to.Tensor, from.Tensor) })
}

// forPairs calls f for each pair of parameters without recording for gradients.
func forPairs(s *torch.Scope, to, from []Param, f func(to, from Param)) {
	if len(to) != len(from) {
		panic(fmt.Sprintf("model: %d parameters cannot be paired with %d", len(to), len(from)))
	}
	s.NoGrad(func() {
		for i := range to {
			s.Do(func(*torch.Scope) { f(to[i], from[i]) })
		}
	})
}

func moveGrad(to, from torch.Tensor) {
	g := from.Grad()
	if g.None() {
		return
	}
	if sum := to.Grad(); sum.None() {
		to.SetGrad(g.To(to.DType()))
	} else {
		sum.Add_(g, 1)
	}
	from.ZeroGrad()
}

// To moves the weights to a device. The weights can be used only on the
// thread's device. It runs inside torch.Run. It panics for views (Base,
// Frozen), which share their weights, and for models with adapters.
func (m *Model) To(s *torch.Scope, d torch.Device) {
	if m.divided() {
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
