package model

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/torch"
)

// Shadow makes a copy of the model in another type: a bfloat16 copy that
// computes while float32 weights are trained, or a frozen reference.
func (m *Model) Shadow(ctx context.Context, dt torch.DType) (*Model, error) {
	if m.lora != nil {
		return nil, errors.New("a model with adapters has no shadow; its adapters are float32 on weights of any type")
	}
	params := m.Params()
	return build(ctx, m.thread, m.Config, dt, func(_ *torch.Scope, i int, _ weight) (torch.Tensor, error) {
		return params[i].Tensor.Detach().Clone(), nil
	})
}

// CopyFrom overwrites what training changes with that of a model of the same
// configuration and adapters, converting its type. It runs inside torch.Run.
func (m *Model) CopyFrom(s *torch.Scope, src *Model) {
	to, from := m.Trained(), src.Trained()
	m.checkPair(to, from)
	s.NoGrad(func() {
		for i := range to {
			to[i].Tensor.Copy_(from[i].Tensor)
		}
	})
}

// CopyWeights overwrites the weights with those of a model of the same
// configuration, its adapters merged, whatever else either has. It runs inside
// torch.Run.
func (m *Model) CopyWeights(s *torch.Scope, src *Model) {
	to, from := m.Params(), src.Params()
	m.checkPair(to, from)
	s.NoGrad(func() {
		for i := range to {
			s.Do(func(*torch.Scope) { to[i].Tensor.Copy_(src.merged(from[i])) })
		}
	})
}

// MoveGrads adds the gradients of a shadow to those of the model and drops
// them from the shadow, so that sums over micro-batches are kept in the
// model's own type. It runs inside torch.Run.
func (m *Model) MoveGrads(s *torch.Scope, shadow *Model) {
	to, from := m.Trained(), shadow.Trained()
	m.checkPair(to, from)
	s.NoGrad(func() {
		for i := range to {
			s.Do(func(*torch.Scope) { moveGrad(to[i].Tensor, from[i].Tensor) })
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

// To moves the weights to a device, of which only that of the thread can compute
// with them. It runs inside torch.Run. The weights of a view (Base, Frozen) are
// another model's and cannot move; nor can those that are trained.
func (m *Model) To(s *torch.Scope, d torch.Device) {
	if m.owner == nil || m.lora != nil {
		panic("model: the weights are shared with another model or under adapters: they cannot move")
	}
	var list []*torch.Tensor
	for _, w := range m.declared.weights {
		list = append(list, w.field)
	}
	m.owner.To(s, d, list...)
	m.tie()
}

func (m *Model) checkPair(to, from []Param) {
	if len(to) != len(from) {
		panic(fmt.Sprintf("model: %d parameters cannot be paired with %d", len(to), len(from)))
	}
}
