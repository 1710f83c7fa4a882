package torch

// #include "openmanus_torch.h"
import "C"

import (
	"runtime"

	"github.com/wangkuiyi/gotorch"
)

func (t Tensor) along(op string, code C.int64_t, dim int, keep bool) Tensor {
	var out C.om_tensor
	check(op, C.om_along(code, t.in(op), C.int64_t(dim), cbool(keep), &out), t)
	return t.out(out)
}

// Sum is the sum of all elements.
func (t Tensor) Sum() Tensor {
	return t.gotorch1("Sum", func(a gotorch.Tensor) gotorch.Tensor { return gotorch.Sum(a) })
}

// Mean is the mean of all elements.
func (t Tensor) Mean() Tensor { return t.gotorch1("Mean", gotorch.Mean) }

// Max is the largest element.
func (t Tensor) Max() Tensor { return t.unary("Max", C.OM_MAX) }

// Min is the smallest element.
func (t Tensor) Min() Tensor { return t.unary("Min", C.OM_MIN) }

// SumDim sums along dim, which stays with size 1 if keep.
func (t Tensor) SumDim(dim int, keep bool) Tensor { return t.along("SumDim", C.OM_SUM_DIM, dim, keep) }

// MeanDim is the mean along dim, which stays with size 1 if keep.
func (t Tensor) MeanDim(dim int, keep bool) Tensor {
	return t.along("MeanDim", C.OM_MEAN_DIM, dim, keep)
}

// MaxDim is the largest along dim, which stays with size 1 if keep.
func (t Tensor) MaxDim(dim int, keep bool) Tensor { return t.along("MaxDim", C.OM_MAX_DIM, dim, keep) }

// LogSumExp is log Σ e^t along dim. It removes dim.
func (t Tensor) LogSumExp(dim int) Tensor { return t.along("LogSumExp", C.OM_LOGSUMEXP, dim, false) }

// Softmax is e^t / Σ e^t along dim.
func (t Tensor) Softmax(dim int) Tensor { return t.along("Softmax", C.OM_SOFTMAX, dim, false) }

// LogSoftmax is the logarithm of Softmax.
func (t Tensor) LogSoftmax(dim int) Tensor {
	return t.gotorch1("LogSoftmax", func(a gotorch.Tensor) gotorch.Tensor { return gotorch.LogSoftmax(a, int64(dim)) })
}

// Cumsum is the running sum along dim.
func (t Tensor) Cumsum(dim int) Tensor { return t.along("Cumsum", C.OM_CUMSUM, dim, false) }

// Argmax is the index (int64) of the largest element along dim, the first one if several are equal. It removes dim.
func (t Tensor) Argmax(dim int) Tensor {
	return t.gotorch1("Argmax", func(a gotorch.Tensor) gotorch.Tensor { return a.Argmax(dim) })
}

// TopK returns the k largest elements along the last dim, largest first, and their indices (int64).
func (t Tensor) TopK(k int) (values, indices Tensor) {
	t.in("TopK")
	operands := []Tensor{t}
	defer rethrow("TopK", operands)
	v, i := gotorch.TopK(raw(t), int64(k), -1, true, true)
	pv, pi := disown(v), disown(i)
	runtime.KeepAlive(operands)
	return t.out(pv), t.out(pi)
}

// Sort sorts along dim. It also returns the former index of each element (int64). Equal elements keep their order.
func (t Tensor) Sort(dim int, descending bool) (values, indices Tensor) {
	var v, i C.om_tensor
	check("Sort", C.om_sort(t.in("Sort"), C.int64_t(dim), cbool(descending), &v, &i), t)
	return t.out(v), t.out(i)
}
