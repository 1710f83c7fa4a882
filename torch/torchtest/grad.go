package torchtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

// Input is one differentiable argument of a checked function.
type Input struct {
	Data  []float64
	Shape []int
}

// Rand returns an input of numbers between -1 and 1.
func Rand(seed uint64, shape ...int) Input { return RandIn(seed, -1, 1, shape...) }

// RandIn returns an input of numbers between lo and hi.
func RandIn(seed uint64, lo, hi float64, shape ...int) Input {
	n := 1
	for _, d := range shape {
		n *= d
	}
	r := rand.New(rand.NewPCG(seed, 1))
	in := Input{Data: make([]float64, n), Shape: shape}
	for i := range in.Data {
		in.Data[i] = lo + (hi-lo)*r.Float64()
	}
	return in
}

// Func is a function of tensors that have the types and shapes of the inputs.
type Func func(s *torch.Scope, in []torch.Tensor) torch.Tensor

// GradCheck fails the test unless the gradients of f agree with central finite differences, in float64. f's result may have any
// shape; the checked function is the sum of its elements with fixed random weights. The tolerance of an element y is tol · max(1, |y|).
func GradCheck(t testing.TB, f Func, tol float64, inputs ...Input) {
	t.Helper()
	const h = 1e-5
	Run(t, func(s *torch.Scope) {
		t.Helper()
		_, grads := valueAndGrad(s, torch.Float64, f, inputs)
		for i, in := range inputs {
			numeric := make([]float64, len(in.Data))
			data := slices.Clone(in.Data)
			for j := range data {
				var v [2]float64
				for k, d := range []float64{h, -h} {
					data[j] = in.Data[j] + d
					moved := slices.Clone(inputs)
					moved[i] = Input{Data: data, Shape: in.Shape}
					s.Do(func(s *torch.Scope) {
						s.NoGrad(func() { v[k] = weighted(s, f(s, tensors(s, torch.Float64, moved))).Item() })
					})
				}
				data[j] = in.Data[j]
				numeric[j] = (v[0] - v[1]) / (2 * h)
			}
			if err := difference(grads[i], numeric, tol); err != nil {
				t.Error(fmt.Errorf("gradient of input %d: %w", i, err))
			}
		}
	})
}

// Same fails the test unless got, computed in dt, and want, computed in float64 from the same
// inputs, agree in value and in every gradient. The tolerance of an element y is tol · max(1, |y|).
func Same(t testing.TB, dt torch.DType, got, want Func, tol float64, inputs ...Input) {
	t.Helper()
	Run(t, func(s *torch.Scope) {
		t.Helper()
		rounded := make([]Input, len(inputs)) // both start from numbers that dt represents exactly
		for i, in := range inputs {
			rounded[i] = Input{Data: s.Float64s(in.Data, in.Shape...).To(dt).ToFloat64s(), Shape: in.Shape}
		}
		gv, gg := valueAndGrad(s, dt, got, rounded)
		wv, wg := valueAndGrad(s, torch.Float64, want, rounded)
		if len(gv) != len(wv) {
			t.Errorf("the result has %d elements, want %d", len(gv), len(wv))
			return
		}
		if err := difference(gv, wv, tol); err != nil {
			t.Error(fmt.Errorf("result: %w", err))
		}
		for i := range inputs {
			if err := difference(gg[i], wg[i], tol); err != nil {
				t.Error(fmt.Errorf("gradient of input %d: %w", i, err))
			}
		}
	})
}

// valueAndGrad returns f's result and, per input, the gradient of the weighted sum of the result.
func valueAndGrad(s *torch.Scope, dt torch.DType, f Func, inputs []Input) (value []float64, grads [][]float64) {
	s.Do(func(s *torch.Scope) {
		xs := tensors(s, dt, inputs)
		for _, x := range xs {
			x.SetRequiresGrad(true)
		}
		y := f(s, xs)
		value = y.ToFloat64s()
		weighted(s, y).Backward()
		for i, x := range xs {
			g := x.Grad()
			if g.None() {
				grads = append(grads, make([]float64, len(inputs[i].Data)))
				continue
			}
			grads = append(grads, g.ToFloat64s())
		}
	})
	return value, grads
}

func tensors(s *torch.Scope, dt torch.DType, inputs []Input) []torch.Tensor {
	xs := make([]torch.Tensor, len(inputs))
	for i, in := range inputs {
		xs[i] = s.Float64s(in.Data, in.Shape...).To(dt)
	}
	return xs
}

// weighted returns Σ w·y with fixed random weights w, so that errors of different elements do not cancel.
func weighted(s *torch.Scope, y torch.Tensor) torch.Tensor {
	w := RandIn(99, 0.5, 1.5, y.Numel())
	return y.To(torch.Float64).Mul(s.Float64s(w.Data, y.Shape()...)).Sum()
}
