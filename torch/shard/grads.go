package shard

import (
	"context"

	"github.com/openmanus/openmanus/torch"
)

// AccumulateGrads adds the gradients of a micro-batch to sums in the masters' type, and drops them from the weights. It does nothing if
// the weights have the masters' type. Level Optimizer uses it.
func (u *Unit) AccumulateGrads(s *torch.Scope) {
	if !u.trains || u.master.DType() == u.o.Compute {
		return // the gradients of the weights are the sums
	}
	if u.full == nil {
		u.full = make([]torch.Tensor, len(u.params))
	}
	s.Do(func(s *torch.Scope) {
		s.NoGrad(func() {
			var sums, added, fresh, first []torch.Tensor
			for i, v := range u.views {
				g := v.Grad()
				switch {
				case g.None():
				case u.full[i].None():
					u.full[i] = s.Empty(u.master.DType(), u.params[i].shape...)
					u.owner.Own(u.full[i])
					fresh, first = append(fresh, u.full[i]), append(first, g)
				default:
					sums, added = append(sums, u.full[i]), append(added, g)
				}
			}
			torch.AddAll(sums, added)
			torch.CopyAll(fresh, first)
			for _, v := range u.views {
				v.ZeroGrad()
			}
		})
	})
}

// HasGrads reports whether a parameter has a gradient that SumGrads would sum.
func (u *Unit) HasGrads(s *torch.Scope) (has bool) {
	s.Do(func(*torch.Scope) { // frees the handles of gradients, which would keep their memory
		for i := range u.params {
			has = has || !u.grad(i).None()
		}
	})
	return has
}

// grad returns this rank's gradient of the whole parameter i, or the zero Tensor.
func (u *Unit) grad(i int) torch.Tensor {
	switch {
	case u.full != nil:
		return u.full[i]
	case u.views != nil:
		return u.views[i].Grad()
	}
	return torch.Tensor{}
}

// SumGrads sums the gradients of the parameters over the ranks, adds this rank's shard of the sum to the gradients of its shard,
// and drops the gradients of the parameters. A missing gradient counts as 0. It is a collective; the weights must be gathered.
func (u *Unit) SumGrads(s *torch.Scope) {
	s.Do(func(s *torch.Scope) {
		s.NoGrad(func() {
			flat := s.Zeros(u.master.DType(), u.size)
			s.Do(func(*torch.Scope) { // frees the handles of gradients before the collective
				var places, grads []torch.Tensor
				for i := range u.params {
					p := &u.params[i]
					if g := u.grad(i); !g.None() {
						places, grads = append(places, flat.Narrow(0, p.start, p.n)), append(grads, g.Reshape(p.n))
						p.held = true
					}
				}
				torch.CopyAll(places, grads)
			})
			u.dropFull()
			sum := s.Empty(u.master.DType(), u.length)
			u.must("SumGrads", u.o.Group.ReduceScatter(context.Background(), sum, flat))
			if u.grads.None() {
				u.grads = sum
				u.owner.Own(sum)
			} else {
				u.grads.Add_(sum, 1)
			}
		})
	})
}

// Held reports for each parameter whether it has had a gradient on this rank since the last DropGrads.
func (u *Unit) Held(s *torch.Scope) []bool {
	held := make([]bool, len(u.params))
	s.Do(func(*torch.Scope) {
		for i := range u.params {
			held[i] = u.params[i].held || !u.grad(i).None()
		}
	})
	return held
}

// Grads returns the gradients of this rank's shard, summed over the ranks, in the shape of Master. It returns the zero Tensor before
// SumGrads.
func (u *Unit) Grads() torch.Tensor { return u.grads }

// DropGrads frees all gradients.
func (u *Unit) DropGrads() {
	u.dropFull()
	u.owner.Release(u.grads)
	u.grads = torch.Tensor{}
	for i := range u.params {
		u.params[i].held = false
	}
}

// dropFull frees the gradients of whole parameters.
func (u *Unit) dropFull() {
	u.owner.Release(u.full...)
	u.full = nil
	for _, v := range u.views {
		v.ZeroGrad()
	}
}
