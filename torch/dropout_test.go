package torch_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestDropout(t *testing.T) {
	const n, p = 20000, 0.25
	whole := []int{0, 100}
	torchtest.Run(t, func(s *torch.Scope) {
		x := s.Full(3, torch.Float32, 100, n/100)
		x.SetRequiresGrad(true)
		y := x.Dropout(p, []uint64{7}, whole, 1)
		y.Sum().Backward()
		got, grad := y.ToFloat32s(), x.Grad().ToFloat32s()
		zeros := 0
		for i, v := range got {
			switch {
			case v == 0 && grad[i] == 0:
				zeros++
			case math.Abs(float64(v)-3/(1-p)) > 1e-5 || math.Abs(float64(grad[i])-1/(1-p)) > 1e-5:
				t.Fatalf("element %d is %v with gradient %v", i, v, grad[i])
			}
		}
		// The tolerance is five standard deviations of a binomial count.
		if d := math.Abs(float64(zeros) - p*n); d > 5*math.Sqrt(n*p*(1-p)) {
			t.Errorf("%d of %d elements were dropped, want about %v", zeros, n, p*n)
		}
		if again := x.Dropout(p, []uint64{7}, whole, 1).ToFloat32s(); !slices.Equal(again, got) {
			t.Error("a second call with the same key and index drops other elements")
		}
		for _, other := range [][2]uint64{{8, 1}, {7, 2}} {
			if slices.Equal(x.Dropout(p, []uint64{other[0]}, whole, other[1]).ToFloat32s(), got) {
				t.Errorf("key and index %v drop the same elements as 7 and 1", other)
			}
		}
		parts := x.Dropout(p, []uint64{9, 7}, []int{0, 40, 100}, 1).ToFloat32s()
		if row := n / 100; !slices.Equal(parts[40*row:], got[:60*row]) || slices.Equal(parts[:40*row], got[:40*row]) {
			t.Error("the draws of a packed sequence do not depend on its key alone")
		}
		if all := x.Dropout(0, []uint64{7}, whole, 1).ToFloat32s(); slices.Contains(all, 0) {
			t.Error("Dropout with share 0 drops elements")
		}
	})
	err := torchtest.RunErr(t, func(s *torch.Scope) { s.Ones(torch.Float32, 2).Dropout(.5, []uint64{1}, []int{0, 3}, 1) })
	if err == nil || !strings.Contains(err.Error(), "offsets [0 3]") {
		t.Errorf("wrong offsets: got %v, want an error", err)
	}
	for _, p := range []float64{1, -.1, math.NaN()} {
		err := torchtest.RunErr(t, func(s *torch.Scope) { s.Ones(torch.Float32, 2).Dropout(p, []uint64{1}, []int{0, 2}, 1) })
		if err == nil || !strings.Contains(err.Error(), "must be at least 0 and below 1") {
			t.Errorf("share %v: got %v, want an error", p, err)
		}
	}
}

// TestDropoutMask compares the draws of the test's device with numbers of Go's generator, for sequences whose numbers of elements
// are no multiples of the four draws of a number, and for long ones.
func TestDropoutMask(t *testing.T) {
	const p, index = .3, 5
	keys, offsets := []uint64{1 << 63, 0, 12345, 7}, []int{0, 7, 7, 30, 231}
	for _, width := range []int{1, 3, 64} {
		var want []float64
		for i, key := range keys {
			r := rand.NewPCG(key, index)
			var bits uint64
			for j := range (offsets[i+1] - offsets[i]) * width {
				if j%4 == 0 {
					bits = r.Uint64()
				}
				kept := 0.
				if float64(bits>>(j%4*16)&0xffff) >= math.Floor(p*65536) {
					kept = 1 / (1 - p)
				}
				want = append(want, kept)
			}
		}
		for _, dt := range []torch.DType{torch.Float32, torch.BFloat16, torch.Float64} {
			torchtest.Run(t, func(s *torch.Scope) {
				x := s.Ones(dt, 231, width)
				x.SetRequiresGrad(true)
				y := x.Dropout(p, keys, offsets, index)
				y.Sum().Backward()
				torchtest.Values(t, y.Detach(), .01, want...)
				torchtest.Close(t, x.Grad(), y.Detach(), 0)
			})
		}
	}
}
