package torch_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// needCPU skips a test of the int8 copies on other devices, which refuse them.
func needCPU(t *testing.T) {
	t.Helper()
	if !torchtest.Device(t).IsCPU() {
		t.Skip("int8 copies are for CPUs only")
	}
}

// dequantised returns the weight that an int8 copy stands for.
func dequantised(w torch.Int8Weight) torch.Tensor {
	return w.Values.To(torch.Float64).Mul(w.Scales.To(torch.Float64).Reshape(-1, 1))
}

// TestQuantizeInt8 checks the values, their largest size and the error of every element, at most half of the row's scale.
func TestQuantizeInt8(t *testing.T) {
	needCPU(t)
	onEveryCPU(t, func(t *testing.T) {
		for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
			for _, size := range [][2]int{{1, 1}, {3, 8}, {5, 37}, {40, 64}, {9, 576}} {
				torchtest.Run(t, func(s *torch.Scope) {
					w := s.RandN(1, size[0], size[1]).To(dt)
					q := torch.QuantizeInt8(w)
					if v, c := q.Values, q.Scales; v.DType() != torch.Int8 || !slices.Equal(v.Shape(), size[:]) || c.DType() != torch.Float32 || c.Numel() != size[0] {
						t.Fatalf("%v %v: values %v, scales %v", dt, size, v, c)
					}
					want, got := w.To(torch.Float64).ToFloat64s(), dequantised(q).ToFloat64s()
					scales, values := q.Scales.ToFloat32s(), q.Values.To(torch.Float32).ToFloat32s()
					for r, scale := range scales {
						largest := float32(0)
						for i := r * size[1]; i < (r+1)*size[1]; i++ {
							largest = max(largest, float32(math.Abs(float64(values[i]))))
							if d := math.Abs(got[i] - want[i]); !(d <= float64(scale)*(0.5+1e-4)) {
								t.Errorf("%v %v: element %d is %v, want %v within half of the scale %v", dt, size, i, got[i], want[i], scale)
							}
						}
						if largest != 127 {
							t.Errorf("%v %v: the largest value of row %d is %v, want 127", dt, size, r, largest)
						}
					}
				})
			}
		}
	})
}

// TestQuantizeInt8OfSpecialRows checks that zeros stay zeros and that values that are not finite are not lost.
func TestQuantizeInt8OfSpecialRows(t *testing.T) {
	needCPU(t)
	onEveryCPU(t, func(t *testing.T) {
		torchtest.Run(t, func(s *torch.Scope) {
			nan, inf := float32(math.NaN()), float32(math.Inf(-1))
			q := torch.QuantizeInt8(s.Float32s([]float32{0, 0, 0, nan, 1, 2, 3, inf, 1, 1e-42, 0, 0}, 4, 3))
			scales := q.Scales.ToFloat32s()
			torchtest.Values(t, dequantised(q).Narrow(0, 0, 1), 0, 0, 0, 0)
			torchtest.Values(t, dequantised(q).Narrow(0, 3, 1), 1e-40, 0, 0, 0)
			if !math.IsNaN(float64(scales[1])) || !math.IsNaN(float64(scales[2])) {
				t.Errorf("the scales of rows with NaN and an infinity are %v, want NaN", scales[1:3])
			}
		})
	})
}

// TestLinearsInt8 checks the kernels against float64 products with the weights that the copies stand for.
func TestLinearsInt8(t *testing.T) {
	needCPU(t)
	onEveryCPU(t, func(t *testing.T) {
		for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
			for _, size := range [][3]int{{1, 8, 16}, {1, 37, 96}, {2, 7, 37}, {3, 33, 64}, {4, 18, 5}, {5, 37, 100}, {6, 5, 2100}, {64, 48, 64}, {65, 20, 33}, {131, 5, 32}, {0, 4, 8}} {
				t.Run(fmt.Sprintf("%v %v", dt, size), func(t *testing.T) { int8Case(t, dt, size[0], size[1], size[2]) })
			}
		}
	})
}

// int8Case allows the error of rounding x to 16 bits, Σ |w| · max |x| / 65534, and that of the sums and of the result.
func int8Case(t *testing.T, dt torch.DType, rows, outs, k int) {
	t.Helper()
	tol := 1e-5
	if dt == torch.BFloat16 {
		tol = 0.005
	}
	const d = torch.Float64
	torchtest.Run(t, func(s *torch.Scope) {
		x, b := s.RandN(1, rows, k).To(dt), s.RandN(4, outs).To(dt)
		ws := []torch.Int8Weight{torch.QuantizeInt8(s.RandN(2, outs, k)), torch.QuantizeInt8(s.RandN(3, outs+3, k))}
		biases := []torch.Tensor{b, {}}
		values := x.To(d).ToFloat64s()
		for i, y := range torch.LinearsInt8(x, ws, biases) {
			if y.DType() != dt {
				t.Errorf("the result has type %v, want %v", y.DType(), dt)
			}
			w := dequantised(ws[i])
			bias := torch.Tensor{}
			if i == 0 {
				bias = b.To(d)
			}
			got, want, sizes := y.To(d).ToFloat64s(), x.To(d).Linear(w, bias).ToFloat64s(), w.Abs().SumDim(-1, false).ToFloat64s()
			for j := range want {
				largest := 0.0
				for _, v := range values[j/len(sizes)*k:][:k] {
					largest = max(largest, math.Abs(v))
				}
				bound := sizes[j%len(sizes)]*largest/65534 + tol*(1+math.Abs(want[j]))
				if diff := math.Abs(got[j] - want[j]); !(diff <= bound) {
					t.Fatalf("weight %d: element %d is %v, want %v within %v", i, j, got[j], want[j], bound)
				}
			}
		}
	})
}

// TestLinearsInt8OfExtremes checks that sums of the largest products do not overflow, and that zeros and NaN stay so in their row.
func TestLinearsInt8OfExtremes(t *testing.T) {
	needCPU(t)
	onEveryCPU(t, func(t *testing.T) {
		torchtest.Run(t, func(s *torch.Scope) {
			const k = 4100
			x := make([]float32, 6*k)
			for i := range x[:4*k] {
				x[i] = -1
			}
			x[5*k] = float32(math.NaN())
			w := torch.QuantizeInt8(s.Ones(torch.Float32, 5, k))
			got := torch.LinearsInt8(s.Float32s(x, 6, k), []torch.Int8Weight{w}, nil)[0].ToFloat32s()
			for i, v := range got {
				switch row := i / 5; {
				case row < 4 && !(math.Abs(float64(v)+k) <= 1e-5*k), row == 4 && v != 0, row == 5 && v == v:
					t.Errorf("element %d of row %d is %v", i%5, row, v)
				}
			}
		})
	})
}

// TestLinearsInt8IsBatchInvariant checks that a row gives the same bits alone, in every batch, in a call with several weights and with
// every number of threads.
func TestLinearsInt8IsBatchInvariant(t *testing.T) {
	needKernels(t)
	defer torch.SetNumThreads(torch.NumThreads())
	const outs, most = 77, 2*torch.SkinnyRows + 3
	onEveryCPU(t, func(t *testing.T) {
		for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
			for _, k := range []int{200, 192} {
				torchtest.Run(t, func(s *torch.Scope) {
					x, q := s.RandN(1, most, k).To(dt), torch.QuantizeInt8(s.RandN(2, outs, k))
					torch.SetNumThreads(1)
					want := torch.LinearsInt8(x, []torch.Int8Weight{q}, nil)[0].ToFloat32s()
					torch.SetNumThreads(3)
					for rows := 1; rows <= most; rows++ {
						got := torch.LinearsInt8(x.Narrow(0, most-rows, rows), []torch.Int8Weight{q, q}, nil)
						if !slices.Equal(got[0].ToFloat32s(), want[(most-rows)*outs:]) || !slices.Equal(got[1].ToFloat32s(), want[(most-rows)*outs:]) {
							t.Errorf("%v, depth %d: the results of the last %d rows differ from those in a batch of %d rows", dt, k, rows, most)
						}
					}
				})
			}
		}
	})
}

// TestInt8NeedsTheCPU checks that a weight on another device is refused.
func TestInt8NeedsTheCPU(t *testing.T) {
	if torchtest.Device(t).IsCPU() {
		t.Skip("the test needs another device")
	}
	var e *torch.Error
	if err := torchtest.RunErr(t, func(s *torch.Scope) { torch.QuantizeInt8(s.Ones(torch.Float32, 3, 4)) }); !errors.As(err, &e) {
		t.Fatalf("got %v, want a *torch.Error", err)
	}
}

func TestInt8Errors(t *testing.T) {
	needCPU(t)
	for _, tt := range []struct {
		name string
		f    func(s *torch.Scope, q torch.Int8Weight) // q is [3,4]
	}{
		{"float64 weight", func(s *torch.Scope, _ torch.Int8Weight) { torch.QuantizeInt8(s.Ones(torch.Float64, 3, 4)) }},
		{"a weight of one dimension", func(s *torch.Scope, _ torch.Int8Weight) { torch.QuantizeInt8(s.Ones(torch.Float32, 3)) }},
		{"float64 x", func(s *torch.Scope, q torch.Int8Weight) {
			torch.LinearsInt8(s.Ones(torch.Float64, 1, 4), []torch.Int8Weight{q}, nil)
		}},
		{"another width", func(s *torch.Scope, q torch.Int8Weight) {
			torch.LinearsInt8(s.Ones(torch.Float32, 1, 5), []torch.Int8Weight{q}, nil)
		}},
		{"float values", func(s *torch.Scope, q torch.Int8Weight) {
			q.Values = q.Values.To(torch.Float32)
			torch.LinearsInt8(s.Ones(torch.Float32, 1, 4), []torch.Int8Weight{q}, nil)
		}},
		{"too few scales", func(s *torch.Scope, q torch.Int8Weight) {
			q.Scales = q.Scales.Narrow(0, 0, 2)
			torch.LinearsInt8(s.Ones(torch.Float32, 1, 4), []torch.Int8Weight{q}, nil)
		}},
		{"a bias of another size", func(s *torch.Scope, q torch.Int8Weight) {
			torch.LinearsInt8(s.Ones(torch.Float32, 1, 4), []torch.Int8Weight{q}, []torch.Tensor{s.Ones(torch.Float32, 4)})
		}},
		{"fewer biases than weights", func(s *torch.Scope, q torch.Int8Weight) {
			torch.LinearsInt8(s.Ones(torch.Float32, 1, 4), []torch.Int8Weight{q, q}, []torch.Tensor{{}})
		}},
		{"a gradient", func(s *torch.Scope, q torch.Int8Weight) {
			x := s.Ones(torch.Float32, 1, 4)
			x.SetRequiresGrad(true)
			torch.LinearsInt8(x, []torch.Int8Weight{q}, nil)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var e *torch.Error
			if err := torchtest.RunErr(t, func(s *torch.Scope) { tt.f(s, torch.QuantizeInt8(s.Ones(torch.Float32, 3, 4))) }); !errors.As(err, &e) {
				t.Fatalf("got %v, want a *torch.Error", err)
			}
		})
	}
}
