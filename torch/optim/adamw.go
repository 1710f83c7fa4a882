package optim

import (
	"context"
	"slices"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/shard"
)

// Param is a trained tensor under its name in the checkpoint.
type Param struct {
	Name    string
	Tensor  torch.Tensor
	NoDecay bool // exclude the tensor from weight decay
}

// AdamWOptions has the constants of AdamW.
type AdamWOptions struct {
	Beta1, Beta2 float64 // decay rates of the running means of the gradient and its square
	Eps          float64
	WeightDecay  float64
}

// DefaultAdamW returns the defaults of torch.optim.AdamW.
func DefaultAdamW() AdamWOptions {
	return AdamWOptions{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01}
}

// AdamW is Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2), as torch.optim.AdamW:
//
//	m ← β₁m + (1-β₁)g,  v ← β₂v + (1-β₂)g²
//	w ← w·(1-lr·λ) - lr · (m/(1-β₁ᵗ)) / (√(v/(1-β₂ᵗ)) + ε)
//
// It differs from torch.optim.AdamW in that t counts the steps of all parameters together, including steps in which
// a parameter has no gradient. Parameters of a 16-bit type are updated in float32 and rounded from there.
type AdamW struct {
	o      AdamWOptions
	t      *torch.Thread
	owner  *torch.Owner
	steps  int
	params []Param
	state  []state
	units  []*shard.Unit // parameters that are sharded over ranks
	shards []moments     // state of each unit
}

// state is the optimizer state of one parameter. weight is the parameter itself, or its float32 master.
type state struct{ weight, m, v torch.Tensor }

// NewAdamW returns an optimiser with zero state for params and the parameters of units. It must be called inside torch.Run.
func NewAdamW(t *torch.Thread, params []Param, o AdamWOptions, units ...*shard.Unit) *AdamW {
	a := &AdamW{o: o, t: t, owner: torch.NewOwner(t, "adamw"), params: params, state: make([]state, len(params)), units: units}
	for _, u := range units {
		p := moments{m: u.Master().Clone(), v: u.Master().Clone()}
		p.m.Zero_()
		p.v.Zero_()
		a.owner.Own(p.m, p.v)
		a.shards = append(a.shards, p)
	}
	for i, p := range params {
		w := p.Tensor.Detach()
		switch p.Tensor.DType() {
		case torch.Float32, torch.Float64:
		case torch.BFloat16, torch.Float16:
			w = w.To(torch.Float32)
		default:
			torch.Fail("NewAdamW", "the parameter "+p.Name+" is not of a floating point type", p.Tensor)
		}
		st := state{weight: w, m: w.Clone(), v: w.Clone()}
		st.m.Zero_()
		st.v.Zero_()
		a.owner.Own(st.weight, st.m, st.v)
		a.state[i] = st
	}
	return a
}

// Steps returns the number of steps done.
func (a *AdamW) Steps() int { return a.steps }

// Close frees the state. The parameters stay.
func (a *AdamW) Close() { a.owner.Close() }

// Step clips the gradients to the global norm maxNorm (0: no limit), updates the parameters, drops the gradients and returns
// their norm before clipping. Gradients that are not finite are dropped and reported as a *NotFiniteError; parameters
// and state stay as they were. If no parameter has a gradient, Step does nothing.
func (a *AdamW) Step(s *torch.Scope, lr, maxNorm float64) (norm float64, err error) {
	norms, err := StepAll(context.Background(), s, nil, Share{Of: a, LR: lr, MaxNorm: maxNorm})
	return norms[0], err
}

func (a *AdamW) update(s *torch.Scope, grads []torch.Tensor, held []bool, lr, scale float64) {
	a.steps++
	a.updateUnits(s, held, lr, scale)
	for _, noDecay := range []bool{false, true} {
		o := torch.AdamWOptions{
			LR: lr, Beta1: a.o.Beta1, Beta2: a.o.Beta2, Eps: a.o.Eps, WeightDecay: a.o.WeightDecay, Step: a.steps, GradScale: scale,
		}
		if noDecay {
			o.WeightDecay = 0
		}
		var w, g, m, v, copies []torch.Tensor
		for i, p := range a.params {
			if p.NoDecay != noDecay {
				continue
			}
			w, g, m, v = append(w, a.state[i].weight), append(g, grads[i]), append(m, a.state[i].m), append(v, a.state[i].v)
			copies = append(copies, torch.Tensor{})
			if a.master(i) {
				copies[len(copies)-1] = p.Tensor
			}
		}
		torch.AdamWStep(w, g, m, v, copies, o)
	}
}

// To moves the moments to a device, to free memory on another one. Step requires the moments on the parameters' device. Call
// the method inside torch.Run.
func (a *AdamW) To(s *torch.Scope, d torch.Device) { a.owner.To(s, d, a.moments()...) }

// moments returns the state that only Step reads. It excludes float32 masters, which hold the parameters' values.
func (a *AdamW) moments() []*torch.Tensor {
	var list []*torch.Tensor
	for i := range a.state {
		list = append(list, &a.state[i].m, &a.state[i].v)
	}
	for i := range a.shards {
		list = append(list, &a.shards[i].m, &a.shards[i].v)
	}
	return list
}

// Bytes returns the size of the moments.
func (a *AdamW) Bytes() int {
	n := 0
	for _, t := range a.moments() {
		n += t.Numel() * t.DType().Size()
	}
	return n
}

// master reports whether parameter i has a float32 master.
func (a *AdamW) master(i int) bool { return a.params[i].Tensor.DType().Size() == 2 }

// Share is the part of one optimiser in a joint step: its learning rate, and
// the maximal norm to which its gradients are clipped (0: no limit).
type Share struct {
	Of          *AdamW
	LR, MaxNorm float64
}

// StepAll runs AdamW.Step for several optimisers whose gradients come from one backward pass. It returns the
// gradient norm of each optimiser before clipping. If the gradients of one optimiser are not finite, no optimiser steps.
//
// The gradients are summed over the ranks of g first; nil is one process. All ranks call StepAll with the same optimisers, and
// get the same norms, errors and weights.
func StepAll(ctx context.Context, s *torch.Scope, g *dist.Group, shares ...Share) (norms []float64, err error) {
	norms = make([]float64, len(shares))
	s.Do(func(s *torch.Scope) {
		s.NoGrad(func() {
			var held [][]bool
			if held, err = sumGrads(ctx, s, g, shares); err != nil {
				return
			}
			scales := make([]float64, len(shares))
			var failed error // gradients that are not finite
			for i, p := range shares {
				var notFinite bool
				if norms[i], notFinite, err = p.Of.norm(ctx, s, g); err != nil {
					return
				}
				if notFinite && failed == nil {
					failed, err = p.Of.notFinite(ctx, s, g, norms[i])
				}
				if err != nil {
					return
				}
				scales[i] = clipScale(norms[i], p.MaxNorm)
			}
			for i, p := range shares {
				if failed == nil && slices.Contains(held[i], true) {
					p.Of.update(s, gradsOf(p.Of.params), held[i], p.LR, scales[i])
				}
				p.Of.dropGrads()
			}
			err = failed
		})
	})
	return norms, err
}
