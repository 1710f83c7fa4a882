package torch

// #include "openmanus_torch.h"
import "C"

import "github.com/wangkuiyi/gotorch"

// Sum returns the sum of all elements.
func (t Tensor) Sum() Tensor {
	return t.gotorch1("Sum", func(a gotorch.Tensor) gotorch.Tensor { return gotorch.Sum(a) })
}

// Mean returns the mean of all elements.
func (t Tensor) Mean() Tensor { return t.gotorch1("Mean", gotorch.Mean) }

// Max returns the largest element.
func (t Tensor) Max() Tensor { return t.unary("Max", C.OM_MAX) }

// Min returns the smallest element.
func (t Tensor) Min() Tensor { return t.unary("Min", C.OM_MIN) }

// SumDim sums along dim. If keep is set, dim stays with size 1.
func (t Tensor) SumDim(dim int, keep bool) Tensor {
	var out C.om_tensor
	return result("SumDim", C.om_sum_dim(t.in("SumDim"), C.int64_t(dim), cbool(keep), &out), &out, t)
}

// LogSoftmax returns log(e^t / Σ e^t) along dim.
func (t Tensor) LogSoftmax(dim int) Tensor {
	return t.gotorch1("LogSoftmax", func(a gotorch.Tensor) gotorch.Tensor { return gotorch.LogSoftmax(a, int64(dim)) })
}
