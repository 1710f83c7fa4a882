package optim

import (
	"context"
	"fmt"
	"math"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/shard"
)

// bucketBytes bounds the memory in which small gradients are collected for one collective.
const bucketBytes = 64 << 20

// count returns the number of parameters.
func (a *AdamW) count() int {
	n := len(a.params)
	for _, u := range a.units {
		n += u.Len()
	}
	return n
}

// held reports for each parameter, first those that are not sharded, whether this rank has a gradient.
func (a *AdamW) held(s *torch.Scope) []bool {
	var list []bool
	for _, p := range a.params {
		list = append(list, !p.Tensor.Grad().None())
	}
	for _, u := range a.units {
		list = append(list, u.Held(s)...)
	}
	return list
}

// sumGrads replaces the gradients by their sums over the ranks of g; of a unit each rank gets its shard. A rank without a gradient of
// a parameter that another rank has adds zeros. A parameter without a gradient on all ranks stays without one. held reports,
// for each share, the parameters with a gradient on at least one rank.
func sumGrads(ctx context.Context, s *torch.Scope, g *dist.Group, shares []Share) (held [][]bool, err error) {
	for _, p := range shares {
		held = append(held, p.Of.held(s))
	}
	if g == nil {
		return held, nil
	}
	if err := union(ctx, s, g, held); err != nil {
		return nil, err
	}
	b := bucket{ctx: ctx, g: g}
	for k, p := range shares {
		a := p.Of
		for i, p := range a.params {
			if !held[k][i] {
				continue
			}
			if p.Tensor.Grad().None() {
				p.Tensor.SetGrad(s.Zeros(p.Tensor.DType(), p.Tensor.Shape()...))
			}
			if err := b.add(s, p.Tensor.Grad()); err != nil {
				return nil, err
			}
		}
		first := len(a.params)
		for _, u := range a.units {
			any := false
			for _, h := range held[k][first:][:u.Len()] {
				any = any || h
			}
			if first += u.Len(); any && u.Level() == shard.Optimizer {
				u.SumGrads(s)
			}
		}
	}
	return held, b.flush(s)
}

// union replaces each value by its disjunction over the ranks.
func union(ctx context.Context, s *torch.Scope, g *dist.Group, lists [][]bool) error {
	var flags []int32
	for _, l := range lists {
		for _, v := range l {
			n := int32(0)
			if v {
				n = 1
			}
			flags = append(flags, n)
		}
	}
	t := s.Int32s(flags, len(flags))
	if err := g.AllReduce(ctx, t); err != nil {
		return fmt.Errorf("optim: exchange which parameters have a gradient: %w", err)
	}
	flags = t.ToInt32s()
	for _, l := range lists {
		for i := range l {
			l[i] = flags[i] > 0
		}
		flags = flags[len(l):]
	}
	return nil
}

// bucket collects gradients of one type for one collective.
type bucket struct {
	ctx   context.Context
	g     *dist.Group
	grads []torch.Tensor
	size  int // in bytes
}

func (b *bucket) add(s *torch.Scope, grad torch.Tensor) error {
	n := grad.Numel() * grad.DType().Size()
	if len(b.grads) > 0 && (b.size+n > bucketBytes || grad.DType() != b.grads[0].DType()) {
		if err := b.flush(s); err != nil {
			return err
		}
	}
	b.grads, b.size = append(b.grads, grad), b.size+n
	return nil
}

// flush sums the collected gradients over the ranks.
func (b *bucket) flush(s *torch.Scope) error {
	var err error
	s.Do(func(*torch.Scope) { err = sumTogether(b.ctx, b.g, b.grads) })
	b.grads, b.size = nil, 0
	return err
}

// sumTogether sums tensors of one type over the ranks in one collective.
func sumTogether(ctx context.Context, g *dist.Group, grads []torch.Tensor) error {
	if len(grads) == 0 {
		return nil
	}
	flat := grads[0].Contiguous() // no copy, in general
	if len(grads) > 1 {
		parts := make([]torch.Tensor, len(grads))
		for i, t := range grads {
			parts[i] = t.Reshape(t.Numel())
		}
		flat = torch.Cat(parts, 0)
	}
	if err := g.AllReduce(ctx, flat); err != nil {
		return fmt.Errorf("optim: sum the gradients over the ranks: %w", err)
	}
	if len(grads) == 1 {
		grads[0].Copy_(flat)
		return nil
	}
	at := 0
	for _, t := range grads {
		t.Copy_(flat.Narrow(0, at, t.Numel()).View(t.Shape()...))
		at += t.Numel()
	}
	return nil
}

// norm returns the L2 norm of all gradients, after sumGrads. All ranks get the same bits.
func (a *AdamW) norm(ctx context.Context, s *torch.Scope, g *dist.Group) (norm float64, notFinite bool, err error) {
	norm = torch.GlobalNorm(gradsOf(a.params))
	if len(a.units) > 0 {
		own := 0.0
		for _, u := range a.units {
			own += math.Pow(torch.GlobalNorm([]torch.Tensor{u.Grads()}), 2)
		}
		t := s.Float64s([]float64{own}, 1)
		if err := g.AllReduce(ctx, t); err != nil {
			return 0, false, fmt.Errorf("optim: sum the squares of the gradients over the ranks: %w", err)
		}
		norm = math.Sqrt(norm*norm + t.Item())
	}
	return norm, math.IsNaN(norm) || math.IsInf(norm, 0), nil
}

// notFinite returns a *NotFiniteError with the names of the parameters whose gradients are not finite on some rank.
func (a *AdamW) notFinite(ctx context.Context, s *torch.Scope, g *dist.Group, norm float64) (failed, err error) {
	bad := make([]bool, 0, a.count())
	var names []string
	for _, p := range a.params {
		grad := p.Tensor.Grad()
		bad, names = append(bad, !grad.None() && !grad.AllFinite()), append(names, p.Name)
	}
	for _, u := range a.units {
		for i := range u.Len() {
			finite := true
			if !u.Grads().None() {
				own := u.Segment(u.Grads(), i)
				finite = own.None() || own.AllFinite()
			}
			bad, names = append(bad, !finite), append(names, u.Name(i))
		}
	}
	if g != nil {
		if err := union(ctx, s, g, [][]bool{bad}); err != nil {
			return nil, err
		}
	}
	e := &NotFiniteError{Norm: norm}
	for i, b := range bad {
		if b {
			e.Params = append(e.Params, names[i])
		}
	}
	return e, nil
}

func (a *AdamW) dropGrads() {
	for _, p := range a.params {
		p.Tensor.ZeroGrad()
	}
	for _, u := range a.units {
		u.DropGrads()
	}
}
