package torch_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestLinearSkinny(t *testing.T) {
	types := []torch.DType{torch.Float32, torch.BFloat16}
	onEveryCPU(t, func(t *testing.T) {
		for _, xt := range types {
			for _, wt := range types {
				t.Run(fmt.Sprintf("%v times %v", xt, wt), func(t *testing.T) {
					for _, size := range [][3]int{{1, 8, 16}, {2, 7, 37}, {3, 33, 64}, {7, 4, 5}, {16, 130, 100}, {5, 37, 96}, {4, 9, 30}, {16, 48, 64}, {0, 4, 8}} {
						skinnyCase(t, xt, wt, size[0], size[1], size[2])
					}
				})
			}
		}
	})
}

// skinnyTolerance returns the tolerance of LinearsSkinny for results of the type dt.
func skinnyTolerance(dt torch.DType) float64 {
	if dt == torch.BFloat16 {
		return 0.01
	}
	return 1e-5
}

func skinnyCase(t *testing.T, xt, wt torch.DType, rows, outs, k int) {
	t.Helper()
	tol := skinnyTolerance(xt)
	torchtest.Run(t, func(s *torch.Scope) {
		x, w, v := s.RandN(1, rows, k).To(xt), s.RandN(2, outs, k).To(wt), s.RandN(3, outs+3, k).To(wt)
		if xt == torch.Float32 && wt == torch.BFloat16 && !kernels(t) {
			x = x.To(wt).To(xt) // without kernels, x is rounded to the weight's type
		}
		b := s.RandN(4, outs).To(wt)
		d := torch.Float64
		want := x.To(d).Linear(w.To(d), b.To(d)).To(torch.Float32)
		got := torch.LinearSkinny(x, w, b)
		if got.DType() != xt {
			t.Errorf("the result has type %v, want %v", got.DType(), xt)
		}
		torchtest.Close(t, got.To(torch.Float32), want, tol)
		both := torch.LinearsSkinny(x, []torch.Tensor{w, v}, []torch.Tensor{b, {}})
		torchtest.Close(t, both[0], got, 0)
		torchtest.Close(t, both[1].To(torch.Float32), x.To(d).Linear(v.To(d), torch.Tensor{}).To(torch.Float32), tol)
		if kernels(t) { // weights of two types in one call
			v := v.To(torch.Float32)
			if wt == torch.Float32 {
				v = v.To(torch.BFloat16)
			}
			mixed := torch.LinearsSkinny(x, []torch.Tensor{w, v}, []torch.Tensor{b, {}})
			torchtest.Close(t, mixed[0].To(torch.Float32), want, tol)
			torchtest.Close(t, mixed[1].To(torch.Float32), x.To(d).Linear(v.To(d), torch.Tensor{}).To(torch.Float32), tol)
		}
	})
}

// TestLinearAdd checks that adding products in place gives the bits of LinearsSkinny and an addition. A GPU adds before it rounds to
// the type of the result, so there the tolerance is that of LinearsSkinny.
func TestLinearAdd(t *testing.T) {
	onEveryCPU(t, func(t *testing.T) {
		for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
			for _, rows := range []int{1, 3, 16, torch.SkinnyRows} {
				torchtest.Run(t, func(s *torch.Scope) {
					x, h, w := s.RandN(1, rows, 37).To(dt), s.RandN(2, rows, 100).To(dt), s.RandN(3, 37, 100).To(dt)
					want := x.Add(torch.LinearSkinny(h, w, torch.Tensor{}))
					torch.LinearAdd(x, h, w)
					tol := 0.0
					if !x.Device().IsCPU() {
						tol = skinnyTolerance(dt)
					}
					torchtest.Close(t, x, want, tol)
				})
			}
		}
	})
}

// TestLinearSkinnyShapes checks that leading dimensions are kept and that float64 operands, which ATen computes, are
// accepted.
func TestLinearSkinnyShapes(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		x, w := s.RandN(1, 2, 3, 8), s.RandN(2, 5, 8)
		torchtest.Close(t, torch.LinearSkinny(x, w, torch.Tensor{}), x.Linear(w, torch.Tensor{}), 1e-5)
		x, w = x.To(torch.Float64), w.To(torch.Float64)
		torchtest.Close(t, torch.LinearSkinny(x, w, torch.Tensor{}), x.Linear(w, torch.Tensor{}), 1e-12)
	})
}

// TestLinearSkinnyIsBatchInvariant checks that a row gives the same bits alone, in every batch, and in a call with
// several weights.
func TestLinearSkinnyIsBatchInvariant(t *testing.T) {
	needKernels(t)
	onEveryCPU(t, func(t *testing.T) {
		for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
			skinnyInvariant(t, dt, 200)
			skinnyInvariant(t, dt, 192)
			skinnyInvariant(t, dt, 197) // a part of a vector at the end
		}
	})
}

func skinnyInvariant(t *testing.T, dt torch.DType, k int) {
	t.Helper()
	const outs = 77
	torchtest.Run(t, func(s *torch.Scope) {
		x, w := s.RandN(1, torch.SkinnyRows, k).To(dt), s.RandN(2, outs, k).To(dt)
		want := torch.LinearSkinny(x, w, torch.Tensor{}).ToFloat32s()
		for rows := 1; rows <= torch.SkinnyRows; rows++ {
			from := torch.SkinnyRows - rows
			got := torch.LinearSkinny(x.Narrow(0, from, rows), w, torch.Tensor{}).ToFloat32s()
			if !slices.Equal(got, want[from*outs:]) {
				t.Errorf("%v, depth %d: the results of the last %d rows differ from those in a batch of %d rows", dt, k, rows, torch.SkinnyRows)
			}
		}
	})
}

// TestLinearSkinnyOnThreads checks that the number of threads does not change the results for bfloat16 rows, whose conversion to float32 is
// divided among threads.
func TestLinearSkinnyOnThreads(t *testing.T) {
	const outs, k = 77, 577
	onEveryCPU(t, func(t *testing.T) {
		sameOnThreads(t, func(s *torch.Scope) [][]float32 {
			x, w := s.RandN(1, torch.SkinnyRows, k).To(torch.BFloat16), s.RandN(2, outs, k).To(torch.BFloat16)
			got := torch.LinearSkinny(x, w, torch.Tensor{}).To(torch.Float32)
			torchtest.Close(t, got, x.To(torch.Float64).Linear(w.To(torch.Float64), torch.Tensor{}).To(torch.Float32), skinnyTolerance(torch.BFloat16))
			return [][]float32{got.ToFloat32s()}
		})
	})
}

// TestThreadsDoNotChangeResults checks that the number of threads, which changes the division of work, does not change
// the results.
func TestThreadsDoNotChangeResults(t *testing.T) {
	const context, size = 700, 16
	defer torch.SetNumThreads(torch.NumThreads())
	var linear, attention [2][]float32
	var norm [2]float64
	for i, threads := range []int{1, 3} {
		torch.SetNumThreads(threads)
		torchtest.Run(t, func(s *torch.Scope) {
			w := s.RandN(2, 999, 300)
			linear[i] = torch.LinearSkinny(s.RandN(1, 5, 300), w, torch.Tensor{}).ToFloat32s()
			norm[i] = torch.GlobalNorm([]torch.Tensor{w, s.RandN(3, 77)})
			p := fill(s, torch.BFloat16, size, []torch.Tensor{s.RandN(4, context, 2, 16)}, []torch.Tensor{s.RandN(5, context, 2, 16)})
			seqs := torch.CachedSeqs{QOffsets: []int{0, 2}, Lens: []int{context}, Blocks: p.blocks}
			attention[i] = torch.AttentionCached(s.RandN(6, 2, 4, 16), p.k, p.v, seqs, 0.25).ToFloat32s()
		})
	}
	if !slices.Equal(linear[0], linear[1]) || !slices.Equal(attention[0], attention[1]) || norm[0] != norm[1] {
		t.Error("the results with 1 and 3 threads differ")
	}
}

// TestLinear checks a linear layer of rows of any number of dimensions, and its gradients.
func TestLinear(t *testing.T) {
	plain := func(in []torch.Tensor) torch.Tensor { return in[0].MatMul(in[1].Transpose(0, 1)) }
	onEveryCPU(t, func(t *testing.T) {
		for dt, tol := range tolerances {
			for _, shape := range [][]int{{37}, {5, 37}, {2, 3, 37}} {
				x, w, b := torchtest.Rand(1, shape...), torchtest.Rand(2, 4, 37), torchtest.Rand(3, 4)
				torchtest.Same(t, dt, func(_ *torch.Scope, in []torch.Tensor) torch.Tensor { return in[0].Linear(in[1], torch.Tensor{}) },
					func(_ *torch.Scope, in []torch.Tensor) torch.Tensor { return plain(in) }, tol, x, w)
				torchtest.Same(t, dt, func(_ *torch.Scope, in []torch.Tensor) torch.Tensor { return in[0].Linear(in[1], in[2]) },
					func(_ *torch.Scope, in []torch.Tensor) torch.Tensor { return plain(in).Add(in[2]) }, tol, x, w, b)
			}
		}
	})
}

// TestLinears checks layers of one input, with adjacent and with separate weights, against single layers: the results, and the
// gradients over two backward passes, of which the second adds to the first.
func TestLinears(t *testing.T) {
	const in, rows = 6, 5
	outs := []int{8, 4, 4}
	for _, test := range []struct {
		name            string
		adjacent        bool
		biases, trained [3]bool
	}{
		{"adjacent", true, [3]bool{}, [3]bool{true, true, true}},
		{"adjacent with biases", true, [3]bool{true, true, true}, [3]bool{true, true, true}},
		{"one bias", true, [3]bool{false, true, false}, [3]bool{true, true, true}},
		{"separate", false, [3]bool{true, true, true}, [3]bool{true, true, true}},
		{"frozen", true, [3]bool{}, [3]bool{}},
		{"partly frozen", true, [3]bool{}, [3]bool{true, false, true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for dt, tol := range tolerances {
				torchtest.Run(t, func(s *torch.Scope) {
					layers := func(adjacent bool) (ws, bs []torch.Tensor) {
						s.NoGrad(func() {
							all, at := s.RandN(1, 16, in).To(dt), 0
							bias := s.RandN(2, 16).To(dt)
							for i, n := range outs {
								w, b := all.Narrow(0, at, n), bias.Narrow(0, at, n)
								if !adjacent {
									w, b = w.Clone(), b.Clone()
								}
								w.SetRequiresGrad(test.trained[i])
								b.SetRequiresGrad(test.trained[i])
								if !test.biases[i] {
									b = torch.Tensor{}
								}
								ws, bs, at = append(ws, w), append(bs, b), at+n
							}
						})
						return ws, bs
					}
					input := func() torch.Tensor {
						x := s.RandN(3, rows, in).To(dt)
						x.SetRequiresGrad(true)
						return x
					}
					x, y := input(), input()
					ws, bs := layers(test.adjacent)
					wantWs, wantBs := layers(false)
					for range 2 {
						got := torch.Linears(x, ws, bs)
						for i := range ws {
							want := y.Linear(wantWs[i], wantBs[i])
							torchtest.Close(t, got[i], want, tol)
							factor := s.RandN(uint64(10+i), rows, outs[i]).To(dt)
							want.BackwardWith(factor)
							got[i] = got[i].Mul(factor).Sum()
						}
						got[0].Add(got[1]).Add(got[2]).Backward()
					}
					torchtest.Close(t, x.Grad(), y.Grad(), 2*tol)
					for i := range ws {
						if !test.trained[i] {
							if !ws[i].Grad().None() {
								t.Errorf("the frozen layer %d has a gradient", i)
							}
							continue
						}
						torchtest.Close(t, ws[i].Grad(), wantWs[i].Grad(), 2*tol)
						if test.biases[i] {
							torchtest.Close(t, bs[i].Grad(), wantBs[i].Grad(), 2*tol)
						}
					}
				})
			}
		})
	}
}

// TestLinearResidual checks the sum of a residual and a linear layer, and its gradients.
func TestLinearResidual(t *testing.T) {
	kernel := func(_ *torch.Scope, in []torch.Tensor) torch.Tensor { return torch.LinearResidual(in[0], in[1], in[2]) }
	plain := func(_ *torch.Scope, in []torch.Tensor) torch.Tensor {
		return in[0].Add(in[1].Linear(in[2], torch.Tensor{}))
	}
	for dt, tol := range tolerances {
		torchtest.Same(t, dt, kernel, plain, tol, torchtest.Rand(1, 5, 4), torchtest.Rand(2, 5, 6), torchtest.Rand(3, 4, 6))
	}
}
