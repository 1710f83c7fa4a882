package shard

import (
	"context"

	"github.com/openmanus/openmanus/torch"
)

// Len returns the number of parameters.
func (u *Unit) Len() int { return len(u.params) }

// Name returns the name of parameter i.
func (u *Unit) Name(i int) string { return u.params[i].Name }

// Shape returns the shape of parameter i.
func (u *Unit) Shape(i int) []int { return u.params[i].shape }

// Master returns this rank's part of the weights that the optimiser updates, in one dimension.
func (u *Unit) Master() torch.Tensor { return u.master }

// segment returns the range of parameter i in the part of a rank; n is 0 if the part has none of it.
func (u *Unit) segment(rank, i int) (at, n int) {
	p, first := &u.params[i], rank*u.length
	from, to := max(p.start, first), min(p.start+p.n, first+u.length)
	return from - first, max(0, to-from)
}

// Segment returns the elements of parameter i in a tensor that is divided like the weights, or the zero Tensor.
func (u *Unit) Segment(part torch.Tensor, i int) torch.Tensor {
	at, n := u.segment(u.o.Group.Rank(), i)
	if n == 0 {
		return torch.Tensor{}
	}
	return part.Narrow(0, at, n)
}

// Range returns the elements first … first+n-1 of parameter i that this rank's part has.
func (u *Unit) Range(i int) (first, n int) {
	at, n := u.segment(u.o.Group.Rank(), i)
	return u.o.Group.Rank()*u.length + at - u.params[i].start, n
}

// Put writes this rank's elements of parameter i, whose value is v, into a tensor that is divided like the weights.
func (u *Unit) Put(part torch.Tensor, i int, v torch.Tensor) {
	if first, n := u.Range(i); n > 0 {
		u.Segment(part, i).Copy_(v.Reshape(v.Numel()).Narrow(0, first, n))
	}
}

// Whole returns parameter i of a tensor that is divided like the weights, on all ranks. It is a collective.
func (u *Unit) Whole(s *torch.Scope, part torch.Tensor, i int) torch.Tensor {
	longest, ranks := 0, u.o.Group.Size()
	for r := range ranks {
		_, n := u.segment(r, i)
		longest = max(longest, n)
	}
	own := s.Zeros(part.DType(), 1, longest)
	if mine := u.Segment(part, i); !mine.None() {
		own.Narrow(1, 0, mine.Numel()).Copy_(mine.Reshape(1, mine.Numel()))
	}
	all := s.Empty(part.DType(), ranks, longest)
	u.must("Whole", u.o.Group.AllGather(context.Background(), all, own))
	var pieces []torch.Tensor
	for r := range ranks {
		if _, n := u.segment(r, i); n > 0 {
			pieces = append(pieces, all.Narrow(0, r, 1).Reshape(longest).Narrow(0, 0, n))
		}
	}
	return torch.Cat(pieces, 0).View(u.params[i].shape...)
}
