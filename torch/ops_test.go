package torch_test

import (
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestOps(t *testing.T) {
	inf := math.Inf(1)
	tests := []struct {
		name  string
		f     func(s *torch.Scope) torch.Tensor
		shape []int
		dtype torch.DType
		want  []float64
	}{
		{"Add", func(s *torch.Scope) torch.Tensor { return a(s).Add(b(s)) }, []int{2, 3}, torch.Float32, []float64{2, 4, 6, 0, -1, -2}},
		{"Sub", func(s *torch.Scope) torch.Tensor { return a(s).Sub(b(s)) }, []int{2, 3}, torch.Float32, []float64{0, 0, 0, -2, -3, -4}},
		{"Mul", func(s *torch.Scope) torch.Tensor { return a(s).Mul(b(s)) }, []int{2, 3}, torch.Float32, []float64{1, 4, 9, -1, -2, -3}},
		{"Div", func(s *torch.Scope) torch.Tensor { return a(s).Div(b(s)) }, []int{2, 3}, torch.Float32, []float64{1, 1, 1, -1, -2, -3}},
		{"Add broadcasts", func(s *torch.Scope) torch.Tensor { return a(s).Add(s.Float32s([]float32{10, 20, 30}, 3)) }, []int{2, 3}, torch.Float32, []float64{11, 22, 33, 9, 18, 27}},
		{"AddScalar", func(s *torch.Scope) torch.Tensor { return a(s).AddScalar(0.5) }, []int{2, 3}, torch.Float32, []float64{1.5, 2.5, 3.5, -.5, -1.5, -2.5}},
		{"AddScalar keeps int64", func(s *torch.Scope) torch.Tensor { return s.Int64s([]int64{0, 1, 2}, 3).AddScalar(2) }, []int{3}, torch.Int64, []float64{2, 3, 4}},
		{"MulScalar", func(s *torch.Scope) torch.Tensor { return a(s).MulScalar(-2) }, []int{2, 3}, torch.Float32, []float64{-2, -4, -6, 2, 4, 6}},
		{"Neg", func(s *torch.Scope) torch.Tensor { return a(s).Neg() }, []int{2, 3}, torch.Float32, []float64{-1, -2, -3, 1, 2, 3}},
		{"Exp", func(s *torch.Scope) torch.Tensor { return s.Float64s([]float64{0, 1}, 2).Exp() }, []int{2}, torch.Float64, []float64{1, math.E}},
		{"Log", func(s *torch.Scope) torch.Tensor { return s.Float64s([]float64{1, math.E}, 2).Log() }, []int{2}, torch.Float64, []float64{0, 1}},
		{"Sqrt", func(s *torch.Scope) torch.Tensor { return s.Float64s([]float64{4, 9}, 2).Sqrt() }, []int{2}, torch.Float64, []float64{2, 3}},
		{"Abs", func(s *torch.Scope) torch.Tensor { return a(s).Abs() }, []int{2, 3}, torch.Float32, []float64{1, 2, 3, 1, 2, 3}},
		{"Square", func(s *torch.Scope) torch.Tensor { return a(s).Square() }, []int{2, 3}, torch.Float32, []float64{1, 4, 9, 1, 4, 9}},
		{"Sigmoid", func(s *torch.Scope) torch.Tensor { return s.Float64s([]float64{0, math.Log(3)}, 2).Sigmoid() }, []int{2}, torch.Float64, []float64{.5, .75}},
		{"Clamp", func(s *torch.Scope) torch.Tensor { return a(s).Clamp(-1.5, 2) }, []int{2, 3}, torch.Float32, []float64{1, 2, 2, -1, -1.5, -1.5}},
		{"Minimum", func(s *torch.Scope) torch.Tensor { return a(s).Minimum(b(s)) }, []int{2, 3}, torch.Float32, []float64{1, 2, 3, -1, -2, -3}},
		{"Maximum", func(s *torch.Scope) torch.Tensor { return a(s).Maximum(b(s)) }, []int{2, 3}, torch.Float32, []float64{1, 2, 3, 1, 1, 1}},
		{"MatMul", func(s *torch.Scope) torch.Tensor { return a(s).MatMul(b(s).Transpose(0, 1)) }, []int{2, 2}, torch.Float32, []float64{14, 6, -14, -6}},
		{"MatMul batched", func(s *torch.Scope) torch.Tensor { return a(s).View(2, 1, 3).MatMul(b(s).View(2, 3, 1)) }, []int{2, 1, 1}, torch.Float32, []float64{14, -6}},
		{"Linear", func(s *torch.Scope) torch.Tensor { return a(s).Linear(b(s), s.Float32s([]float32{1, 2}, 2)) }, []int{2, 2}, torch.Float32, []float64{15, 8, -13, -4}},
		{"Linear without bias", func(s *torch.Scope) torch.Tensor { return a(s).Linear(b(s), torch.Tensor{}) }, []int{2, 2}, torch.Float32, []float64{14, 6, -14, -6}},

		{"Transpose", func(s *torch.Scope) torch.Tensor { return a(s).Transpose(0, 1) }, []int{3, 2}, torch.Float32, []float64{1, -1, 2, -2, 3, -3}},
		{"View", func(s *torch.Scope) torch.Tensor { return a(s).View(-1) }, []int{6}, torch.Float32, []float64{1, 2, 3, -1, -2, -3}},
		{"View of one element as a scalar", func(s *torch.Scope) torch.Tensor { return s.Ones(torch.Float32, 1, 1).View() }, []int{}, torch.Float32, []float64{1}},
		{"Reshape copies", func(s *torch.Scope) torch.Tensor { return a(s).Transpose(0, 1).Reshape(6) }, []int{6}, torch.Float32, []float64{1, -1, 2, -2, 3, -3}},
		{"Narrow", func(s *torch.Scope) torch.Tensor { return a(s).Narrow(1, 1, 2) }, []int{2, 2}, torch.Float32, []float64{2, 3, -2, -3}},
		{"IndexSelect", func(s *torch.Scope) torch.Tensor { return a(s).IndexSelect(1, s.Int64s([]int64{2, 0}, 2)) }, []int{2, 2}, torch.Float32, []float64{3, 1, -3, -1}},
		{"Gather", func(s *torch.Scope) torch.Tensor { return a(s).Gather(1, s.Int64s([]int64{2, 0}, 2, 1)) }, []int{2, 1}, torch.Float32, []float64{3, -1}},
		{"Embedding", func(s *torch.Scope) torch.Tensor { return torch.Embedding(a(s), s.Int64s([]int64{1, 0, 1}, 3)) }, []int{3, 3}, torch.Float32, []float64{-1, -2, -3, 1, 2, 3, -1, -2, -3}},
		{"Cat", func(s *torch.Scope) torch.Tensor { return torch.Cat([]torch.Tensor{a(s), b(s)}, 1) }, []int{2, 6}, torch.Float32, []float64{1, 2, 3, 1, 2, 3, -1, -2, -3, 1, 1, 1}},
		{"Stack", func(s *torch.Scope) torch.Tensor { return torch.Stack([]torch.Tensor{a(s), b(s)}, 0) }, []int{2, 2, 3}, torch.Float32, []float64{1, 2, 3, -1, -2, -3, 1, 2, 3, 1, 1, 1}},
		{"To truncates", func(s *torch.Scope) torch.Tensor { return s.Float32s([]float32{1.9, -1.9}, 2).To(torch.Int64) }, []int{2}, torch.Int64, []float64{1, -1}},
		{"To bfloat16 rounds", func(s *torch.Scope) torch.Tensor { return s.Float32s([]float32{1.00390625}, 1).To(torch.BFloat16) }, []int{1}, torch.BFloat16, []float64{1}},
		{"Clone", func(s *torch.Scope) torch.Tensor { return a(s).Clone() }, []int{2, 3}, torch.Float32, []float64{1, 2, 3, -1, -2, -3}},

		{"Sum", func(s *torch.Scope) torch.Tensor { return b(s).Sum() }, []int{}, torch.Float32, []float64{9}},
		{"Mean", func(s *torch.Scope) torch.Tensor { return b(s).Mean() }, []int{}, torch.Float32, []float64{1.5}},
		{"SumDim", func(s *torch.Scope) torch.Tensor { return b(s).SumDim(0, false) }, []int{3}, torch.Float32, []float64{2, 3, 4}},
		{"SumDim keep", func(s *torch.Scope) torch.Tensor { return b(s).SumDim(-1, true) }, []int{2, 1}, torch.Float32, []float64{6, 3}},
		{"Max", func(s *torch.Scope) torch.Tensor { return a(s).Max() }, []int{}, torch.Float32, []float64{3}},
		{"Min", func(s *torch.Scope) torch.Tensor { return a(s).Min() }, []int{}, torch.Float32, []float64{-3}},
		{"LogSoftmax", func(s *torch.Scope) torch.Tensor {
			return s.Float64s([]float64{0, math.Log(3)}, 1, 2).LogSoftmax(-1)
		}, []int{1, 2}, torch.Float64, []float64{math.Log(.25), math.Log(.75)}},
		{"LogSoftmax of large numbers", func(s *torch.Scope) torch.Tensor {
			return s.Float64s([]float64{1000, 1000}, 2).LogSoftmax(0)
		}, []int{2}, torch.Float64, []float64{-math.Ln2, -math.Ln2}},

		{"Ne", func(s *torch.Scope) torch.Tensor { return a(s).Ne(b(s)) }, []int{2, 3}, torch.Bool, []float64{0, 0, 0, 1, 1, 1}},
		{"Le", func(s *torch.Scope) torch.Tensor { return a(s).Le(b(s)) }, []int{2, 3}, torch.Bool, []float64{1, 1, 1, 1, 1, 1}},
		{"Gt", func(s *torch.Scope) torch.Tensor { return a(s).Gt(b(s)) }, []int{2, 3}, torch.Bool, []float64{0, 0, 0, 0, 0, 0}},
		{"Ge", func(s *torch.Scope) torch.Tensor { return a(s).Ge(b(s)) }, []int{2, 3}, torch.Bool, []float64{1, 1, 1, 0, 0, 0}},
		{"LtScalar", func(s *torch.Scope) torch.Tensor { return b(s).LtScalar(2) }, []int{2, 3}, torch.Bool, []float64{1, 0, 0, 1, 1, 1}},
		{"LeScalar", func(s *torch.Scope) torch.Tensor { return b(s).LeScalar(2) }, []int{2, 3}, torch.Bool, []float64{1, 1, 0, 1, 1, 1}},
		{"GtScalar", func(s *torch.Scope) torch.Tensor { return b(s).GtScalar(2) }, []int{2, 3}, torch.Bool, []float64{0, 0, 1, 0, 0, 0}},
		{"GeScalar", func(s *torch.Scope) torch.Tensor { return b(s).GeScalar(2) }, []int{2, 3}, torch.Bool, []float64{0, 1, 1, 0, 0, 0}},
		{"And", func(s *torch.Scope) torch.Tensor { return bits(s, 1, 1, 0, 0).And(bits(s, 1, 0, 1, 0)) }, []int{4}, torch.Bool, []float64{1, 0, 0, 0}},
		{"Or", func(s *torch.Scope) torch.Tensor { return bits(s, 1, 1, 0, 0).Or(bits(s, 1, 0, 1, 0)) }, []int{4}, torch.Bool, []float64{1, 1, 1, 0}},
		{"Not", func(s *torch.Scope) torch.Tensor { return bits(s, 1, 0).Not() }, []int{2}, torch.Bool, []float64{0, 1}},
		{"Where", func(s *torch.Scope) torch.Tensor { return torch.Where(a(s).GtScalar(0), a(s), b(s)) }, []int{2, 3}, torch.Float32, []float64{1, 2, 3, 1, 1, 1}},
		{"MaskedFill", func(s *torch.Scope) torch.Tensor { return a(s).MaskedFill(a(s).LtScalar(0), math.Inf(-1)) }, []int{2, 3}, torch.Float32, []float64{1, 2, 3, -inf, -inf, -inf}},

		{"Zeros", func(s *torch.Scope) torch.Tensor { return s.Zeros(torch.Int32, 2) }, []int{2}, torch.Int32, []float64{0, 0}},
		{"Full", func(s *torch.Scope) torch.Tensor { return s.Full(1.5, torch.BFloat16, 2) }, []int{2}, torch.BFloat16, []float64{1.5, 1.5}},
		{"no elements", func(s *torch.Scope) torch.Tensor { return s.Float32s(nil, 0, 3) }, []int{0, 3}, torch.Float32, nil},
		{"Bytes", func(s *torch.Scope) torch.Tensor { return s.Bytes([]byte{0x80, 0x3f, 0, 0xc0}, torch.BFloat16, 2) }, []int{2}, torch.BFloat16, []float64{1, -2}},
		{"Bools", func(s *torch.Scope) torch.Tensor { return s.Bools([]bool{true, false}, 2) }, []int{2}, torch.Bool, []float64{1, 0}},

		{"Copy_", func(s *torch.Scope) torch.Tensor { x := a(s); x.Copy_(s.Full(7, torch.Int64, 3)); return x }, []int{2, 3}, torch.Float32, []float64{7, 7, 7, 7, 7, 7}},
		{"Zero_", func(s *torch.Scope) torch.Tensor { x := a(s); x.Zero_(); return x }, []int{2, 3}, torch.Float32, []float64{0, 0, 0, 0, 0, 0}},
		{"Add_", func(s *torch.Scope) torch.Tensor { x := a(s); x.Add_(b(s), -1); return x }, []int{2, 3}, torch.Float32, []float64{0, 0, 0, -2, -3, -4}},
		{"a view shares memory", func(s *torch.Scope) torch.Tensor { x := a(s); x.Narrow(0, 0, 1).Zero_(); return x }, []int{2, 3}, torch.Float32, []float64{0, 0, 0, -1, -2, -3}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			torchtest.Run(t, func(s *torch.Scope) {
				got := test.f(s)
				if !slices.Equal(got.Shape(), test.shape) || got.DType() != test.dtype {
					t.Errorf("got %v, want %v%v", got, test.dtype, test.shape)
				}
				torchtest.Values(t, got, 1e-6, test.want...)
			})
		})
	}
}

// a is [1 2 3; -1 -2 -3] and b is [1 2 3; 1 1 1].
func a(s *torch.Scope) torch.Tensor { return s.Float32s([]float32{1, 2, 3, -1, -2, -3}, 2, 3) }
func b(s *torch.Scope) torch.Tensor { return s.Float32s([]float32{1, 2, 3, 1, 1, 1}, 2, 3) }

func bits(s *torch.Scope, v ...int32) torch.Tensor { return s.Int32s(v, len(v)) }

func TestGradients(t *testing.T) {
	pos := func(seed uint64, shape ...int) torchtest.Input { return torchtest.RandIn(seed, .5, 2, shape...) }
	any := torchtest.Rand
	tests := []struct {
		name string
		f    torchtest.Func
		in   []torchtest.Input
	}{
		{"Add", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].Add(x[1]) }, []torchtest.Input{any(1, 2, 3), any(2, 3)}},
		{"Sub", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].Sub(x[1]) }, []torchtest.Input{any(1, 2, 3), any(2, 2, 1)}},
		{"Mul", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].Mul(x[1]) }, []torchtest.Input{any(1, 2, 3), any(2, 2, 3)}},
		{"Div", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].Div(x[1]) }, []torchtest.Input{any(1, 2, 3), pos(2, 2, 3)}},
		{"MulScalar, AddScalar, Neg", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].MulScalar(3).AddScalar(1).Neg() }, []torchtest.Input{any(1, 4)}},
		{"Exp, Log", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].Exp().Add(x[0].Log()) }, []torchtest.Input{pos(1, 4)}},
		{"Sqrt", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].Sqrt() }, []torchtest.Input{pos(1, 4)}},
		{"Abs, Square", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].Abs().Add(x[0].Square()) }, []torchtest.Input{any(1, 4)}},
		{"Sigmoid", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].Sigmoid() }, []torchtest.Input{any(1, 6)}},
		{"Clamp, Minimum, Maximum", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor {
			return x[0].Clamp(-.5, .5).Add(x[0].Minimum(x[1])).Add(x[0].Maximum(x[1]).MulScalar(2))
		}, []torchtest.Input{any(1, 6), any(2, 6)}},
		{"MatMul", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].MatMul(x[1]) }, []torchtest.Input{any(1, 2, 3), any(2, 3, 2)}},
		{"MatMul batched", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].MatMul(x[1]) }, []torchtest.Input{any(1, 2, 2, 3), any(2, 2, 3, 1)}},
		{"Linear", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].Linear(x[1], x[2]) }, []torchtest.Input{any(1, 2, 3), any(2, 4, 3), any(3, 4)}},
		{"shapes", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor {
			return x[0].Transpose(0, 1).Reshape(1, 6).Narrow(1, 1, 4).View(2, 2).Transpose(1, 0).Contiguous()
		}, []torchtest.Input{any(1, 2, 3)}},
		{"IndexSelect, Gather, Embedding", func(s *torch.Scope, x []torch.Tensor) torch.Tensor {
			ids := s.Int64s([]int64{1, 0, 1}, 3)
			return x[0].IndexSelect(0, ids).Add(torch.Embedding(x[0], ids)).Gather(1, ids.View(3, 1))
		}, []torchtest.Input{any(1, 2, 3)}},
		{"Cat, Stack", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor {
			c := torch.Cat([]torch.Tensor{x[0], x[1]}, 1)
			return torch.Stack([]torch.Tensor{c, c.Square()}, 1)
		}, []torchtest.Input{any(1, 2, 3), any(2, 2, 1)}},
		{"Where, MaskedFill", func(s *torch.Scope, x []torch.Tensor) torch.Tensor {
			m := s.Bools([]bool{true, false, true, false}, 4)
			return torch.Where(m, x[0], x[1].MulScalar(2)).Add(x[0].MaskedFill(m, 1))
		}, []torchtest.Input{any(1, 4), any(2, 4)}},
		{"reductions", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor {
			return x[0].Sum().Add(x[0].Mean()).Add(x[0].Max()).Add(x[0].Min()).Add(x[0].SumDim(0, true).Square()).Add(x[0].SumDim(1, true))
		}, []torchtest.Input{any(1, 3, 4)}},
		{"LogSoftmax", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor {
			return x[0].LogSoftmax(-1).Add(x[0].LogSoftmax(0))
		}, []torchtest.Input{any(1, 3, 4)}},
		{"To, Clone", func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].To(torch.Float64).Clone().Square() }, []torchtest.Input{any(1, 4)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { torchtest.GradCheck(t, test.f, 1e-7, test.in...) })
	}
}
