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

// Master returns this rank's shard of the weights that the optimiser updates, as a one-dimensional tensor. The shards of all ranks have
// the same length.
func (u *Unit) Master() torch.Tensor { return u.master }

// segment returns the range at … at+n-1 of parameter i in the shard of a rank; n is 0 if the shard has none of it.
func (u *Unit) segment(rank, i int) (at, n int) {
	p, first := &u.params[i], rank*u.length
	from, to := max(p.start, first), min(p.start+p.n, first+u.length)
	return from - first, max(0, to-from)
}

// Segment returns the elements of parameter i, a one-dimensional view, in a tensor with the layout of Master. It returns the zero Tensor
// if this rank has none of them.
func (u *Unit) Segment(shard torch.Tensor, i int) torch.Tensor {
	at, n := u.segment(u.o.Group.Rank(), i)
	if n == 0 {
		return torch.Tensor{}
	}
	return shard.Narrow(0, at, n)
}

// Range returns the range first … first+n-1 of the elements of parameter i that this rank's shard has. n is 0 if it has none.
func (u *Unit) Range(i int) (first, n int) {
	at, n := u.segment(u.o.Group.Rank(), i)
	return u.o.Group.Rank()*u.length + at - u.params[i].start, n
}

// Put writes this rank's elements of v, the whole parameter i, into a tensor with the layout of Master.
func (u *Unit) Put(shard torch.Tensor, i int, v torch.Tensor) {
	if first, n := u.Range(i); n > 0 {
		u.Segment(shard, i).Copy_(v.Reshape(v.Numel()).Narrow(0, first, n))
	}
}

// Whole gathers parameter i, in its shape, from tensors with the layout of Master. It is a collective.
func (u *Unit) Whole(s *torch.Scope, shard torch.Tensor, i int) torch.Tensor {
	longest, ranks := 0, u.o.Group.Size()
	for r := range ranks {
		_, n := u.segment(r, i)
		longest = max(longest, n)
	}
	own := s.Zeros(shard.DType(), 1, longest)
	if mine := u.Segment(shard, i); !mine.None() {
		own.Narrow(1, 0, mine.Numel()).Copy_(mine.Reshape(1, mine.Numel()))
	}
	all := s.Empty(shard.DType(), ranks, longest)
	u.must("Whole", u.o.Group.AllGather(context.Background(), all, own))
	var pieces []torch.Tensor
	for r := range ranks {
		if _, n := u.segment(r, i); n > 0 {
			pieces = append(pieces, all.Narrow(0, r, 1).Reshape(longest).Narrow(0, 0, n))
		}
	}
	return torch.Cat(pieces, 0).View(u.params[i].shape...)
}
