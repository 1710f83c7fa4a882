package torch_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// kernels reports whether the tests compute with the CPU kernels.
func kernels(t *testing.T) bool {
	t.Helper()
	return torchtest.Device(t).IsCPU() && torch.CPULevel() >= 0
}

// needKernels skips a test of results that are the same, bit by bit, in every batch: ATen's operations choose their order by
// the shape.
func needKernels(t *testing.T) {
	t.Helper()
	if !kernels(t) {
		t.Skip("the test needs the CPU kernels")
	}
}

// onEveryCPU runs a test with each version of the kernels that this machine can run, and once if the tests compute without
// them.
func onEveryCPU(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	best := torch.CPULevel()
	if !kernels(t) {
		f(t)
		return
	}
	for level := 0; level <= best; level++ {
		t.Run(fmt.Sprintf("level %d", level), func(t *testing.T) {
			torch.LimitCPULevel(level)
			defer torch.LimitCPULevel(best)
			f(t)
		})
	}
}

func TestInstructionSet(t *testing.T) {
	best := torch.CPULevel()
	defer torch.LimitCPULevel(best)
	names := []string{"none", "baseline", "AVX2", "AVX-512", "AVX-512 BF16", "AMX"}
	for level := -1; level <= best; level++ {
		torch.LimitCPULevel(level)
		if got := torch.InstructionSet(); got != names[level+1] {
			t.Errorf("level %d is named %q, want %q", level, got, names[level+1])
		}
	}
}

// tolerances holds the tolerances of the kernels against float64, by the type of the operands.
var tolerances = map[torch.DType]float64{torch.Float64: 1e-12, torch.Float32: 5e-6, torch.BFloat16: 0.03}

// rms returns √(mean(x²) + eps) over the last dimension.
func rms(x torch.Tensor, eps float64) torch.Tensor {
	return x.Square().SumDim(-1, true).MulScalar(1 / float64(x.Size(-1))).AddScalar(eps).Sqrt()
}

func TestRMSNorm(t *testing.T) {
	const eps = 1e-5
	kernel := func(_ *torch.Scope, in []torch.Tensor) torch.Tensor { return torch.RMSNorm(in[0], in[1], eps) }
	plain := func(_ *torch.Scope, in []torch.Tensor) torch.Tensor {
		return in[0].Div(rms(in[0], eps)).Mul(in[1])
	}
	onEveryCPU(t, func(t *testing.T) {
		torchtest.GradCheck(t, kernel, 1e-7, torchtest.Rand(1, 3, 2, 11), torchtest.Rand(2, 11))
		for dt, tol := range tolerances {
			t.Run(dt.String(), func(t *testing.T) {
				torchtest.Same(t, dt, kernel, plain, tol, torchtest.Rand(1, 5, 64), torchtest.Rand(2, 64))
				torchtest.Same(t, dt, kernel, plain, tol, torchtest.Rand(1, 3, 37), torchtest.Rand(2, 37))
				torchtest.Same(t, dt, kernel, plain, tol, torchtest.Rand(1, 0, 8), torchtest.Rand(2, 8))
			})
		}
		// The gradient of w is summed per slab of rows; 200 rows make several slabs.
		torchtest.Same(t, torch.Float32, kernel, plain, 1e-4, torchtest.Rand(1, 200, 8), torchtest.Rand(2, 8))
	})
}

// TestRMSNormRoundsBeforeTheWeight checks that RMSNorm, like transformers, rounds to bfloat16 before it multiplies by
// the weight.
func TestRMSNormRoundsBeforeTheWeight(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		x, w := s.RandN(1, 4, 48).To(torch.BFloat16), s.RandN(2, 48).To(torch.BFloat16)
		xf := x.To(torch.Float32)
		want := xf.Div(rms(xf, 1e-6)).To(torch.BFloat16).Mul(w)
		torchtest.Close(t, torch.RMSNorm(x, w, 1e-6), want, 0)
	})
}

// angles returns cos and sin [n,half].
func angles(s *torch.Scope, n, half int) (cos, sin torch.Tensor) {
	c, v := make([]float32, n*half), make([]float32, n*half)
	for i := range c {
		sn, cs := math.Sincos(float64(i)*0.7 + 0.1)
		c[i], v[i] = float32(cs), float32(sn)
	}
	return s.Float32s(c, n, half), s.Float32s(v, n, half)
}

// rope rotates q alone.
func rope(q, cos, sin torch.Tensor) torch.Tensor {
	r, _, _ := torch.RoPEHeads(q, q.Detach(), q.Detach(), cos, sin, torch.HeadNorm{}, torch.HeadNorm{})
	return r
}

func TestRoPE(t *testing.T) {
	kernel := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
		cos, sin := angles(s, in[0].Size(0), in[0].Size(2)/2)
		return rope(in[0], cos, sin)
	}
	plain := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
		half := in[0].Size(2) / 2
		cos, sin := angles(s, in[0].Size(0), half)
		c, v := cos.View(-1, 1, half), sin.View(-1, 1, half)
		a, b := in[0].Narrow(2, 0, half), in[0].Narrow(2, half, half)
		return torch.Cat([]torch.Tensor{a.Mul(c).Sub(b.Mul(v)), b.Mul(c).Add(a.Mul(v))}, 2)
	}
	onEveryCPU(t, func(t *testing.T) {
		torchtest.GradCheck(t, kernel, 1e-8, torchtest.Rand(1, 3, 2, 6))
		for dt, tol := range tolerances {
			t.Run(dt.String(), func(t *testing.T) {
				torchtest.Same(t, dt, kernel, plain, tol, torchtest.Rand(1, 4, 3, 64))
				torchtest.Same(t, dt, kernel, plain, tol, torchtest.Rand(1, 5, 1, 22))
			})
		}
	})
	// q is a slice of a wider row, as in the result of a fused projection.
	slice := func(f torchtest.Func) torchtest.Func {
		return func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
			return f(s, []torch.Tensor{in[0].Narrow(1, 8, 24).View(4, 3, 8)})
		}
	}
	torchtest.Same(t, torch.Float32, slice(kernel), slice(plain), 5e-6, torchtest.Rand(1, 4, 40))
}

func TestSwiGLU(t *testing.T) {
	kernel := func(_ *torch.Scope, in []torch.Tensor) torch.Tensor { return torch.SwiGLU(in[0], in[1]) }
	plain := func(_ *torch.Scope, in []torch.Tensor) torch.Tensor { return in[0].Mul(in[0].Sigmoid()).Mul(in[1]) }
	onEveryCPU(t, func(t *testing.T) {
		torchtest.GradCheck(t, kernel, 1e-7, torchtest.RandIn(1, -4, 4, 3, 7), torchtest.Rand(2, 3, 7))
		for dt, tol := range tolerances {
			t.Run(dt.String(), func(t *testing.T) {
				torchtest.Same(t, dt, kernel, plain, tol, torchtest.RandIn(1, -6, 6, 3, 70), torchtest.Rand(2, 3, 70))
			})
		}
		torchtest.Run(t, func(s *torch.Scope) {
			inf := float32(math.Inf(1))
			g := s.Float32s([]float32{-200, 200, -inf, inf}, 4)
			got := torch.SwiGLU(g, s.Ones(torch.Float32, 4)).ToFloat32s()
			if got[0] != 0 || got[1] != 200 || got[3] != inf {
				t.Errorf("silu at -200, 200 and infinity: %v, want 0, 200, +Inf", got)
			}
		})
	})
}

// rotated is RoPE of heads by generic operations.
func rotated(s *torch.Scope, q torch.Tensor) torch.Tensor {
	half := q.Size(2) / 2
	cos, sin := angles(s, q.Size(0), half)
	c, v := cos.View(-1, 1, half).To(q.DType()), sin.View(-1, 1, half).To(q.DType())
	a, b := q.Narrow(2, 0, half), q.Narrow(2, half, half)
	return torch.Cat([]torch.Tensor{a.Mul(c).Sub(b.Mul(v)), b.Mul(c).Add(a.Mul(v))}, 2)
}

// TestRoPEHeads checks the rotation of queries and keys with and without norms, for heads that are parts of wider rows.
func TestRoPEHeads(t *testing.T) {
	const heads, kvHeads, dim, eps = 3, 2, 8, 1e-5
	split := func(x torch.Tensor) (q, k, v torch.Tensor) {
		n := x.Size(0)
		return x.Narrow(1, 0, heads*dim).View(n, heads, dim), x.Narrow(1, heads*dim, kvHeads*dim).View(n, kvHeads, dim),
			x.Narrow(1, (heads+kvHeads)*dim, kvHeads*dim).View(n, kvHeads, dim)
	}
	all := func(q, k, v torch.Tensor) torch.Tensor { return torch.Cat([]torch.Tensor{q, k, v}, 1) }
	for _, test := range []struct {
		name         string
		qNorm, kNorm bool
	}{{"no norms", false, false}, {"both norms", true, true}, {"a norm of the keys", false, true}} {
		t.Run(test.name, func(t *testing.T) {
			norm := func(on bool, w torch.Tensor) torch.HeadNorm {
				if !on {
					return torch.HeadNorm{}
				}
				return torch.HeadNorm{Weight: w, Eps: eps}
			}
			kernel := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
				cos, sin := angles(s, in[0].Size(0), dim/2)
				q, k, v := split(in[0])
				return all(torch.RoPEHeads(q, k, v, cos, sin, norm(test.qNorm, in[1]), norm(test.kNorm, in[2])))
			}
			plain := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
				q, k, v := split(in[0])
				if test.qNorm {
					q = q.Div(rms(q, eps)).Mul(in[1])
				}
				if test.kNorm {
					k = k.Div(rms(k, eps)).Mul(in[2])
				}
				return all(rotated(s, q), rotated(s, k), v).Add(in[1].Add(in[2]).MulScalar(0)) // every input has a gradient
			}
			used := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
				return kernel(s, in).Add(in[1].Add(in[2]).MulScalar(0))
			}
			for dt, tol := range tolerances {
				torchtest.Same(t, dt, used, plain, tol, torchtest.Rand(1, 5, (heads+2*kvHeads)*dim), torchtest.Rand(2, dim), torchtest.Rand(3, dim))
			}
			torchtest.Same(t, torch.Float32, used, plain, 1e-4, torchtest.Rand(1, 300, (heads+2*kvHeads)*dim), torchtest.Rand(2, dim), torchtest.Rand(3, dim))
		})
	}
}

// TestRMSNormResidual checks that the gradients of both results are added, also if one result is not used.
func TestRMSNormResidual(t *testing.T) {
	const eps = 1e-5
	for name, join := range map[string]func(y, x torch.Tensor) torch.Tensor{
		"both":          func(y, x torch.Tensor) torch.Tensor { return y.Square().Add(x) },
		"only the norm": func(y, _ torch.Tensor) torch.Tensor { return y.Square() },
		"only x":        func(_, x torch.Tensor) torch.Tensor { return x.Square() },
	} {
		t.Run(name, func(t *testing.T) {
			kernel := func(_ *torch.Scope, in []torch.Tensor) torch.Tensor {
				return join(torch.RMSNormResidual(in[0], in[1], eps)).Add(in[1].MulScalar(0))
			}
			plain := func(_ *torch.Scope, in []torch.Tensor) torch.Tensor {
				return join(in[0].Div(rms(in[0], eps)).Mul(in[1]), in[0]).Add(in[1].MulScalar(0))
			}
			for dt, tol := range tolerances {
				torchtest.Same(t, dt, kernel, plain, 2*tol, torchtest.Rand(1, 5, 37), torchtest.Rand(2, 37))
			}
			torchtest.Same(t, torch.Float32, kernel, plain, 1e-4, torchtest.Rand(1, 300, 8), torchtest.Rand(2, 8))
		})
	}
}

// TestRoPEWrite checks that RoPEWrite gives the bits of RoPEHeads and CacheWrite, also into caches of another type.
func TestRoPEWrite(t *testing.T) {
	const tokens, heads, kvHeads, blocks, blockSize = 80, 4, 2, 6, 16
	slots := make([]int64, tokens)
	for i := range slots {
		slots[i] = int64(i * 7 % (blocks * blockSize)) // 7 and 96 have no common factor
	}
	for _, dim := range []int{8, 20, 64} {
		t.Run(fmt.Sprintf("dimension %d", dim), func(t *testing.T) {
			onEveryCPU(t, func(t *testing.T) {
				for _, types := range [][2]torch.DType{{torch.Float32, torch.Float32}, {torch.BFloat16, torch.BFloat16}, {torch.Float32, torch.BFloat16}} {
					torchtest.Run(t, func(s *torch.Scope) {
						all := s.RandN(1, tokens, heads+2*kvHeads, dim).To(types[0])
						q, k, v := all.Narrow(1, 0, heads), all.Narrow(1, heads, kvHeads), all.Narrow(1, heads+kvHeads, kvHeads)
						cos, sin := angles(s, tokens, dim/2)
						caches := func() (kc, vc torch.Tensor) {
							return s.Zeros(types[1], blocks, blockSize, kvHeads, dim), s.Zeros(types[1], blocks, blockSize, kvHeads, dim)
						}
						kc, vc := caches()
						got := torch.RoPEWrite(q, k, v, cos, sin, kc, vc, slots)
						wantK, wantV := caches()
						wantQ, keys, values := torch.RoPEHeads(q, k, v, cos, sin, torch.HeadNorm{}, torch.HeadNorm{})
						torch.CacheWrite(wantK, wantV, keys, values, slots)
						for name, c := range map[string][2]torch.Tensor{"queries": {got, wantQ}, "keys": {kc, wantK}, "values": {vc, wantV}} {
							if !slices.Equal(c[0].To(torch.Float32).ToFloat32s(), c[1].To(torch.Float32).ToFloat32s()) {
								t.Errorf("%v in caches of %v: the %s differ", types[0], types[1], name)
							}
						}
					})
				}
			})
		})
	}
}

// TestRoPEHeadsOfAStep compares the norms, the rotation and the cache of a generation step with RoPEHeads.
func TestRoPEHeadsOfAStep(t *testing.T) {
	if torchtest.Device(t).IsCPU() {
		t.Skip("the CPU has no steps on a device")
	}
	th, err := torch.NewThread(torchtest.Device(t))
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	const tokens, heads, kvHeads, dim, blocks, blockSize = 5, 4, 2, 8, 3, 4
	step := torch.Step{
		IDs: make([]int32, tokens), Positions: []int32{0, 1, 2, 3, 4}, Slots: []int64{9, 2, 0, 11, 5},
		Seqs: torch.CachedSeqs{QOffsets: []int{0, tokens}, Lens: []int{tokens}, Blocks: [][]int32{{2, 0}}},
	}
	for dt, tol := range map[torch.DType]float64{torch.Float32: 1e-5, torch.BFloat16: 2e-2} {
		for _, norms := range [][2]bool{{false, false}, {true, true}, {true, false}} {
			err := torch.Run(t.Context(), th, func(s *torch.Scope) error {
				s.NoGrad(func() {
					random := func(seed uint64, shape ...int) torch.Tensor { return s.RandN(seed, shape...).To(dt) }
					q, k, v := random(1, tokens, heads, dim), random(2, tokens, kvHeads, dim), random(3, tokens, kvHeads, dim)
					var qn, kn torch.HeadNorm
					if norms[0] {
						qn = torch.HeadNorm{Weight: random(4, dim), Eps: 1e-5}
					}
					if norms[1] {
						kn = torch.HeadNorm{Weight: random(5, dim), Eps: 1e-3}
					}
					cos, sin := angles(s, tokens, dim/2)
					kc, vc := s.Zeros(dt, blocks, blockSize, kvHeads, dim), s.Zeros(dt, blocks, blockSize, kvHeads, dim)
					got := s.Upload(step, blocks, blockSize).RoPEWrite(q, k, v, qn, kn, cos, sin, kc, vc)
					wantQ, wantK, wantV := torch.RoPEHeads(q, k, v, cos, sin, qn, kn)
					torchtest.Close(t, got, wantQ, tol)
					at := s.Int64s(step.Slots, tokens)
					for _, c := range [][2]torch.Tensor{{kc, wantK}, {vc, wantV}} {
						torchtest.Close(t, c[0].View(blocks*blockSize, kvHeads, dim).IndexSelect(0, at), c[1], tol)
					}
				})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
