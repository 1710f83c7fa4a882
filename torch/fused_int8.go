package torch

// #include "openmanus_torch.h"
import "C"

import "fmt"

// Int8Weight is an int8 copy of the weight [M,K] of a linear layer: row o of the weight is about Scales[o] · Values[o]. The error of
// an element is at most half of the row's scale, which is 1/127 of the row's largest absolute value.
type Int8Weight struct {
	Values Tensor // [M,K], between -127 and 127
	Scales Tensor // [M], float32
}

// QuantizeInt8 returns an int8 copy of w [M,K], which is float32 or bfloat16 and on the CPU. A row with an infinite value or NaN gets
// the scale NaN.
func QuantizeInt8(w Tensor) Int8Weight {
	const op = "QuantizeInt8"
	var values, scales C.om_tensor
	check(op, C.om_quantize_int8(w.in(op), &values, &scales), w)
	return Int8Weight{w.out(values), w.out(scales)}
}

// LinearsInt8 is LinearsSkinny with int8 copies of the weights, for any number of rows. x is float32 or bfloat16; the products have
// x's type and the sums are float32.
func LinearsInt8(x Tensor, ws []Int8Weight, biases []Tensor) []Tensor {
	const op = "LinearsInt8"
	if biases != nil && len(biases) != len(ws) {
		Fail(op, fmt.Sprintf("%d weights with %d biases", len(ws), len(biases)), x)
	}
	if len(ws) == 0 {
		return nil
	}
	values, scales := make([]Tensor, len(ws)), make([]Tensor, len(ws))
	for i, w := range ws {
		values[i], scales[i] = w.Values, w.Scales
	}
	out := make([]C.om_tensor, len(ws))
	check(op, C.om_linear_int8(x.in(op), pointers(op, values), pointers(op, scales), pointers(op, biases), C.int64_t(len(ws)), &out[0]),
		append([]Tensor{x}, values...)...)
	ts := make([]Tensor, len(ws))
	for i, p := range out {
		ts[i] = x.out(p)
	}
	return ts
}
