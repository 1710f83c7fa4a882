package model

// Deferred models: the weights are declared, and read when they are needed. Load reads all of them. Shard reads them unit by unit,
// so that a rank never holds more than its shards and one unit. Hash and the methods that copy or save weights read them one by one.

import (
	"cmp"
	"context"
	"fmt"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/nn"
)

// deferred describes the weights of a model that has not read them yet.
type deferred struct {
	read   weightReader
	first  *dist.Group // group whose rank 0 sends its weights to the other ranks; nil: none
	failed error       // first error of read on this rank, if there is a group
	close  []func()    // calls that free the sources of the weights
}

// weightReader returns the i-th weight in any floating-point type. The caller owns the tensor.
type weightReader func(s *torch.Scope, i int, w weight) (torch.Tensor, error)

// postpone makes a declared model a deferred one in dtype dt.
func (m *Model) postpone(t *torch.Thread, dt torch.DType, read weightReader) error {
	if dt != torch.Float32 && dt != torch.BFloat16 && dt != torch.Float64 {
		return fmt.Errorf("a model cannot compute in %s; float32, bfloat16 and float64 are supported", dt)
	}
	m.thread, m.dtype, m.owner = t, dt, torch.NewOwner(t, "model")
	m.deferred = &deferred{read: read}
	return nil
}

// Load reads the weights of a deferred model. It does nothing if the model has weights. If Load fails, the model can only be closed.
// After Broadcast, an error of reading on one rank does not end the collectives: Load returns it on this rank after the last weight,
// and the caller sends it to the other ranks.
func (m *Model) Load(ctx context.Context) error {
	if m.deferred == nil {
		return nil
	}
	for i := range m.declared.weights {
		if err := m.loadWeight(ctx, i); err != nil {
			return err
		}
	}
	if err := m.deferred.failed; err != nil {
		return err
	}
	err := torch.Run(ctx, m.thread, func(s *torch.Scope) error {
		m.adjoin(s)
		return nil
	})
	if err == nil {
		m.tie()
		m.endDeferral()
	}
	return err
}

// loadWeight reads weight i of a deferred model into its field.
func (m *Model) loadWeight(ctx context.Context, i int) error {
	return torch.Run(ctx, m.thread, func(s *torch.Scope) error { // one Run per weight, so that a long load can be cancelled
		v, err := m.readWeight(ctx, s, i)
		if err == nil {
			*m.declared.weights[i].field = v
			m.owner.Own(v)
		}
		return err
	})
}

// readWeight returns weight i of a deferred model in the model's type. It is a collective after Broadcast. The other ranks take part in it
// even if this rank cannot read the weight. This rank then continues with zeros and sets m.deferred.failed.
func (m *Model) readWeight(ctx context.Context, s *torch.Scope, i int) (v torch.Tensor, err error) {
	d, w := m.deferred, m.declared.weights[i]
	s.Do(func(s *torch.Scope) { // frees the tensor in the type of the source
		s.NoGrad(func() {
			if v, err = d.read(s, i, w); err != nil {
				if d.first == nil {
					return
				}
				d.failed = cmp.Or(d.failed, fmt.Errorf("read the weight %s: %w", w.name, err))
				v, err = s.Zeros(m.dtype, w.shape...), nil
			}
			v = v.To(m.dtype).Contiguous()
			if d.first != nil {
				err = d.first.Broadcast(ctx, v, 0)
			}
			s.Keep(v)
		})
	})
	if err != nil {
		return v, fmt.Errorf("read the weight %s: %w", w.name, err)
	}
	return v, nil
}

// endDeferral frees the sources of the weights.
func (m *Model) endDeferral() {
	if m.deferred != nil {
		for _, c := range m.deferred.close {
			c()
		}
		m.deferred = nil
	}
}

// Deferred returns a deferred copy of m in dtype dt, without adapters. m must have its weights, and keep them until the copy has been loaded or sharded;
// if m is sharded, reading the copy's weights is a collective of m's ranks. See Shadow.
func (m *Model) Deferred(dt torch.DType) (*Model, error) {
	if err := m.checkCopy(); err != nil {
		return nil, err
	}
	c, err := newDecoder(m.Config)
	if err != nil {
		return nil, err
	}
	return c, c.postpone(m.thread, dt, m.copyOf)
}

// copyOf is a weightReader that copies the weights of m.
func (m *Model) copyOf(s *torch.Scope, i int, _ weight) (torch.Tensor, error) {
	return m.value(s, i).Clone(), nil
}

// Broadcast replaces the weights and adapters of the ranks of g by those of rank 0. The weights of a deferred model are replaced when they
// are read: all ranks then read each weight once, in the same order.
func (m *Model) Broadcast(ctx context.Context, g *dist.Group) error {
	list := m.Adapters()
	if m.deferred != nil {
		m.deferred.first = g
	} else {
		list = append(list, m.Params()...)
	}
	for _, p := range list {
		if err := torch.Run(ctx, m.thread, func(*torch.Scope) error { return g.Broadcast(ctx, p.Tensor, 0) }); err != nil {
			return fmt.Errorf("send the weight %s to all processes: %w", p.Name, err)
		}
	}
	return nil
}

// deferMerge is Merge for a deferred model: the adapters are added to each weight when it is read.
func (m *Model) deferMerge() {
	read, added := m.deferred.read, map[string]*nn.LoRA{}
	for _, l := range m.lora.list {
		added[l.name+".weight"] = l.l.LoRA
		l.l.LoRA = nil
	}
	m.deferred.close = append(m.deferred.close, m.lora.owner.Close)
	m.lora = nil
	m.deferred.read = func(s *torch.Scope, i int, w weight) (torch.Tensor, error) {
		v, err := read(s, i, w)
		if l := added[w.name]; err == nil && l != nil {
			v = mergedWeight(v.To(m.dtype), l)
		}
		return v, err
	}
}
