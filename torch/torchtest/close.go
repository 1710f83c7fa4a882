package torchtest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

// Close fails the test unless got has the shape of want and every element is within tol · max(1, |want|) of want's element. NaN
// equals only NaN, and an infinity only itself.
func Close(t testing.TB, got, want torch.Tensor, tol float64) {
	t.Helper()
	if g, w := got.Shape(), want.Shape(); !slices.Equal(g, w) {
		t.Errorf("shape %v, want %v", g, w)
		return
	}
	if err := difference(got.ToFloat64s(), want.ToFloat64s(), tol); err != nil {
		t.Error(err)
	}
}

// Values fails the test unless got has exactly these elements in row-major order, within tol · max(1, |want|) each.
func Values(t testing.TB, got torch.Tensor, tol float64, want ...float64) {
	t.Helper()
	if n := got.Numel(); n != len(want) {
		t.Errorf("%v with %d elements, want %d", got, n, len(want))
		return
	}
	if err := difference(got.ToFloat64s(), want, tol); err != nil {
		t.Error(err)
	}
}

// difference reports the element with the largest error.
func difference(got, want []float64, tol float64) error {
	worst, at, n := 0.0, -1, 0
	for i := range want {
		d := relative(got[i], want[i])
		if d <= tol {
			continue
		}
		n++
		if at < 0 || d > worst {
			worst, at = d, i
		}
	}
	if at < 0 {
		return nil
	}
	return fmt.Errorf("%d of %d elements differ by more than %g; element %d is %v, want %v (off by %.3g)", n, len(want), tol, at, got[at], want[at], worst)
}

func relative(got, want float64) float64 {
	if got == want || math.IsNaN(got) && math.IsNaN(want) {
		return 0
	}
	if d := math.Abs(got-want) / max(1, math.Abs(want)); !math.IsNaN(d) {
		return d
	}
	return math.Inf(1)
}
