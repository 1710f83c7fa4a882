package torch_test

import (
	"math"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// adamW computes one step in float64 by algorithm 2 of the paper (arXiv:1711.05101).
func adamW(p, g, m, v []float64, o torch.AdamWOptions) {
	for i := range p {
		gi := g[i] * o.GradScale
		m[i] = o.Beta1*m[i] + (1-o.Beta1)*gi
		v[i] = o.Beta2*v[i] + (1-o.Beta2)*gi*gi
		mh := m[i] / (1 - math.Pow(o.Beta1, float64(o.Step)))
		vh := v[i] / (1 - math.Pow(o.Beta2, float64(o.Step)))
		p[i] -= o.LR * (mh/(math.Sqrt(vh)+o.Eps) + o.WeightDecay*p[i])
	}
}

func TestAdamWStep(t *testing.T) {
	tests := []struct {
		name        string
		param, grad torch.DType
		tol         float64
	}{
		{"float32", torch.Float32, torch.Float32, 2e-6},
		{"float32 with bfloat16 gradients", torch.Float32, torch.BFloat16, 2e-6},
		{"float64", torch.Float64, torch.Float64, 1e-13},
		{"float64 with float32 gradients", torch.Float64, torch.Float32, 1e-13},
	}
	shapes := [][]int{{3, 7}, {1}, {70000}, {16, 16}}
	o := torch.AdamWOptions{LR: 0.1, Beta1: 0.9, Beta2: 0.95, Eps: 1e-6, WeightDecay: 0.1, GradScale: 0.5}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onEveryCPU(t, func(t *testing.T) {
				torchtest.Run(t, func(s *torch.Scope) {
					var ps, ms, vs, copies []torch.Tensor
					var wantP, wantM, wantV [][]float64
					for i, shape := range shapes {
						p := s.RandN(uint64(i), shape...).To(tt.param)
						p.SetRequiresGrad(true)
						ps = append(ps, p)
						ms = append(ms, s.Zeros(tt.param, shape...))
						vs = append(vs, s.Zeros(tt.param, shape...))
						copies = append(copies, s.Zeros(torch.BFloat16, shape...))
						wantP = append(wantP, p.ToFloat64s())
						wantM = append(wantM, make([]float64, p.Numel()))
						wantV = append(wantV, make([]float64, p.Numel()))
					}
					copies[1] = torch.Tensor{}
					for step := 1; step <= 3; step++ {
						o.Step = step
						var gs []torch.Tensor
						for i, shape := range shapes {
							g := s.RandN(uint64(100*step+i), shape...).To(tt.grad)
							gs = append(gs, g)
							adamW(wantP[i], g.ToFloat64s(), wantM[i], wantV[i], o)
						}
						torch.AdamWStep(ps, gs, ms, vs, copies, o)
					}
					for i := range ps {
						torchtest.Values(t, ps[i], tt.tol, wantP[i]...)
						torchtest.Values(t, ms[i], tt.tol, wantM[i]...)
						torchtest.Values(t, vs[i], tt.tol, wantV[i]...)
						if !copies[i].None() {
							torchtest.Close(t, copies[i], ps[i].Detach().To(torch.BFloat16), 0)
						}
					}
				})
			})
		})
	}
}

// TestAdamWStepSkips checks that a parameter without a gradient does not change.
func TestAdamWStepSkips(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		p, q := s.Ones(torch.Float32, 2), s.Ones(torch.Float32, 2)
		z := func() torch.Tensor { return s.Zeros(torch.Float32, 2) }
		o := torch.AdamWOptions{LR: 0.1, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.5, Step: 1, GradScale: 1}
		torch.AdamWStep([]torch.Tensor{p, q}, []torch.Tensor{{}, s.Ones(torch.Float32, 2)}, []torch.Tensor{z(), z()}, []torch.Tensor{z(), z()}, nil, o)
		torchtest.Values(t, p, 0, 1, 1)
		torchtest.Values(t, q, 1e-6, .85, .85) // 1 - 0.1 (1 + 0.5)
		torch.AdamWStep(nil, nil, nil, nil, nil, o)
	})
}

func TestGlobalNorm(t *testing.T) {
	onEveryCPU(t, func(t *testing.T) {
		torchtest.Run(t, func(s *torch.Scope) {
			ts := []torch.Tensor{s.RandN(1, 70000), {}, s.RandN(2, 3, 5).To(torch.BFloat16), s.RandN(3, 9).To(torch.Float64), s.RandN(4, 6, 4).Transpose(0, 1)}
			var sum float64
			for _, x := range ts {
				if x.None() {
					continue
				}
				for _, v := range x.ToFloat64s() {
					sum += v * v
				}
			}
			got := torch.GlobalNorm(ts)
			if math.Abs(got-math.Sqrt(sum)) > 1e-10*got {
				t.Errorf("norm %v, want %v", got, math.Sqrt(sum))
			}
			if n := torch.GlobalNorm(nil); n != 0 {
				t.Errorf("the norm of no tensors is %v, want 0", n)
			}
			if n := torch.GlobalNorm([]torch.Tensor{s.Full(math.Inf(1), torch.Float32, 2)}); !math.IsInf(n, 1) {
				t.Errorf("the norm of infinities is %v, want +Inf", n)
			}
		})
	})
}

// TestCopyAll checks copies and sums of tensors of several types and sizes, also of non-contiguous ones.
func TestCopyAll(t *testing.T) {
	types := []torch.DType{torch.Float32, torch.BFloat16, torch.Float64}
	torchtest.Run(t, func(s *torch.Scope) {
		for _, add := range []bool{false, true} {
			var to, from []torch.Tensor
			var want [][]float64
			for i, tt := range types {
				for j, ft := range types {
					for k, shape := range [][]int{{3, 5}, {20000}, {0}} {
						seed := uint64(100*i + 10*j + k)
						a, b := s.RandN(seed, shape...).To(tt), s.RandN(seed+1000, shape...).To(ft)
						if k == 0 {
							b = s.RandN(seed, 5, 3).To(ft).Transpose(0, 1)
						}
						w := b.ToFloat64s()
						if add {
							for n, v := range a.ToFloat64s() {
								w[n] += v
							}
						}
						to, from, want = append(to, a), append(from, b), append(want, s.Float64s(w, shape...).To(tt).ToFloat64s())
					}
				}
			}
			if add {
				torch.AddAll(to, from)
			} else {
				torch.CopyAll(to, from)
			}
			for i := range to {
				tol := 1e-6
				if add && to[i].DType() == torch.BFloat16 {
					tol = 0.02 // the sum is rounded twice
				}
				torchtest.Values(t, to[i], tol, want[i]...)
			}
		}
		torch.CopyAll(nil, nil)
	})
}
