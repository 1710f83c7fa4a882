package optim

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
)

// bucketBytes bounds the memory in which small gradients are collected for one collective.
const bucketBytes = 64 << 20

// sumGrads replaces the gradients of params by their sums over the ranks of g. A rank without a gradient of a parameter
// that another rank has adds zeros. A parameter without a gradient on all ranks stays without one.
func sumGrads(ctx context.Context, s *torch.Scope, g *dist.Group, params []Param) error {
	if g == nil || g.Size() == 1 {
		return nil
	}
	held, err := heldByAny(ctx, s, g, params)
	if err != nil {
		return err
	}
	var bucket []torch.Tensor
	size := 0
	flush := func() error {
		var err error
		s.Do(func(s *torch.Scope) { err = sumTogether(ctx, g, bucket) })
		bucket, size = nil, 0
		return err
	}
	for i, p := range params {
		if !held[i] {
			continue
		}
		grad := p.Tensor.Grad()
		if grad.None() {
			grad = s.Zeros(p.Tensor.DType(), p.Tensor.Shape()...)
			p.Tensor.SetGrad(grad)
		}
		n := grad.Numel() * grad.DType().Size()
		if len(bucket) > 0 && (size+n > bucketBytes || grad.DType() != bucket[0].DType()) {
			if err := flush(); err != nil {
				return err
			}
		}
		bucket, size = append(bucket, grad), size+n
	}
	return flush()
}

// heldByAny reports which parameters have a gradient on at least one rank.
func heldByAny(ctx context.Context, s *torch.Scope, g *dist.Group, params []Param) ([]bool, error) {
	own := make([]int32, len(params))
	for i, p := range params {
		if !p.Tensor.Grad().None() {
			own[i] = 1
		}
	}
	t := s.Int32s(own, len(own))
	if err := g.AllReduce(ctx, t); err != nil {
		return nil, fmt.Errorf("optim: exchange which parameters have a gradient: %w", err)
	}
	held := make([]bool, len(params))
	for i, n := range t.ToInt32s() {
		held[i] = n > 0
	}
	return held, nil
}

// sumTogether sums tensors of one type over the ranks in one collective.
func sumTogether(ctx context.Context, g *dist.Group, grads []torch.Tensor) error {
	if len(grads) == 0 {
		return nil
	}
	flat := grads[0].Contiguous()
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
		if flat != grads[0] {
			grads[0].Copy_(flat)
		}
		return nil
	}
	at := 0
	for _, t := range grads {
		t.Copy_(flat.Narrow(0, at, t.Numel()).View(t.Shape()...))
		at += t.Numel()
	}
	return nil
}
