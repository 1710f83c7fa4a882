package torch

// #include "openmanus_torch.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// AdamWOptions are the constants of one AdamW step.
type AdamWOptions struct {
	LR, Beta1, Beta2, Eps, WeightDecay float64

	Step      int     // number of the step, from 1
	GradScale float64 // factor of the gradients: 1, or less when they are clipped
}

// AdamWStep updates params and the moments m and v in place, as torch.optim.AdamW does. All three are float32 or float64;
// gradients may have any floating type; a parameter with the zero Tensor as gradient is not updated. The list copies
// may be nil. For each parameter it has the zero Tensor, or a tensor that receives the new value, converted to the
// tensor's dtype (a bfloat16 weight of the forward pass).
func AdamWStep(params, grads, m, v, copies []Tensor, o AdamWOptions) {
	const op = "AdamWStep"
	n := len(params)
	if len(grads) != n || len(m) != n || len(v) != n || copies != nil && len(copies) != n {
		Fail(op, fmt.Sprintf("%d parameters with %d gradients, %d and %d moments and %d copies", n, len(grads), len(m), len(v), len(copies)))
	}
	if n == 0 {
		return
	}
	co := C.om_adamw_options{
		lr: C.double(o.LR), beta1: C.double(o.Beta1), beta2: C.double(o.Beta2), eps: C.double(o.Eps),
		weight_decay: C.double(o.WeightDecay), step: C.int64_t(o.Step), grad_scale: C.double(o.GradScale),
	}
	check(op, C.om_adamw(pointers(op, params), pointers(op, grads), pointers(op, m), pointers(op, v), pointers(op, copies), C.int64_t(n), &co))
}

// GlobalNorm returns the L2 norm over all elements of ts, summed in float64 in a fixed order. Zero Tensors count as 0.
func GlobalNorm(ts []Tensor) float64 {
	const op = "GlobalNorm"
	var out C.double
	check(op, C.om_global_norm(pointers(op, ts), C.int64_t(len(ts)), &out))
	return float64(out)
}

// CopyAll copies each tensor of from to the tensor of to, which has the same shape, and converts it. On a GPU it takes one launch for
// all tensors of a type.
func CopyAll(to, from []Tensor) { copyAll("CopyAll", to, from, false) }

// AddAll adds each tensor of from to the tensor of to, as CopyAll copies it.
func AddAll(to, from []Tensor) { copyAll("AddAll", to, from, true) }

func copyAll(op string, to, from []Tensor, add bool) {
	if len(to) != len(from) {
		Fail(op, fmt.Sprintf("%d tensors for %d", len(from), len(to)))
	}
	check(op, C.om_copy_all(pointers(op, to), pointers(op, from), C.int64_t(len(to)), cbool(add)))
}

// pointers converts tensors to a C array, zero Tensors to NULL. An empty slice becomes NULL.
func pointers(op string, ts []Tensor) *C.om_tensor {
	if len(ts) == 0 {
		return nil
	}
	ps := make([]C.om_tensor, len(ts))
	for i, t := range ts {
		ps[i] = t.opt(op)
	}
	return unsafe.SliceData(ps)
}
