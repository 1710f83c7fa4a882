package torch

// #include "openmanus_torch.h"
import "C"

import "fmt"

// SkinnyRows is the largest number of rows that LinearSkinny takes.
const SkinnyRows = C.OM_SKINNY_ROWS

// LinearSkinny is Linear for the few rows of a decoding step, with kernels that read the weights as fast as memory gives
// them: x [...,K] with at most SkinnyRows rows, w [M,K], bias [M] or none. x and w are float32 or bfloat16, not necessarily
// the same; the result has x's dtype. On the CPU a row's result does not depend on the other rows or their number.
// It has no backward: outside NoGrad, an operand that requires a gradient is an error.
func LinearSkinny(x, w, bias Tensor) Tensor {
	return LinearsSkinny(x, []Tensor{w}, []Tensor{bias})[0]
}

// LinearsSkinny applies several weights to one x in one call, as for q, k and v or gate and up. biases is nil, or has one
// entry per weight, which may be the zero Tensor.
func LinearsSkinny(x Tensor, ws, biases []Tensor) []Tensor {
	const op = "LinearSkinny"
	if biases != nil && len(biases) != len(ws) {
		fail(op, fmt.Sprintf("%d weights with %d biases", len(ws), len(biases)), x)
	}
	if len(ws) == 0 {
		return nil
	}
	out := make([]C.om_tensor, len(ws))
	check(op, C.om_linear_skinny(x.in(op), pointers(op, ws), pointers(op, biases), C.int64_t(len(ws)), &out[0]), append([]Tensor{x}, ws...)...)
	ts := make([]Tensor, len(ws))
	for i, p := range out {
		ts[i] = x.out(p)
	}
	return ts
}
