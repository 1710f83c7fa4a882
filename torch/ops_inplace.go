package torch

// #include "openmanus_torch.h"
import "C"

// The in-place operations end in an underscore, as libtorch's own do, and are not for tensors that require gradients
// outside NoGrad.

// Copy_ copies src, converted, into t.
func (t Tensor) Copy_(src Tensor) {
	check("Copy_", C.om_copy_(t.in("Copy_"), src.in("Copy_")), t, src)
}

// Zero_ sets every element to 0.
func (t Tensor) Zero_() { t.fill("Zero_", 0) }

// Fill_ sets every element to v.
func (t Tensor) Fill_(v float64) { t.fill("Fill_", v) }

func (t Tensor) fill(op string, v float64) {
	check(op, C.om_fill_(t.in(op), C.double(v)), t)
}

// Add_ adds alpha · x.
func (t Tensor) Add_(x Tensor, alpha float64) {
	check("Add_", C.om_add_(t.in("Add_"), x.in("Add_"), C.double(alpha)), t, x)
}

// Mul_ multiplies by v.
func (t Tensor) Mul_(v float64) {
	check("Mul_", C.om_mul_(t.in("Mul_"), C.double(v)), t)
}
