package torch

// #include "openmanus_torch.h"
import "C"

import "github.com/wangkuiyi/gotorch"

func (t Tensor) unary(op string, code C.int64_t) Tensor {
	var out C.om_tensor
	return result(op, C.om_unary(code, t.in(op), &out), &out, t)
}

func (t Tensor) binary(op string, code C.int64_t, o Tensor) Tensor {
	var out C.om_tensor
	return result(op, C.om_binary(code, t.in(op), o.in(op), &out), &out, t, o)
}

func (t Tensor) scalar(op string, code C.int64_t, v float64) Tensor {
	var out C.om_tensor
	return result(op, C.om_scalar(code, t.in(op), C.double(v), &out), &out, t)
}

func (t Tensor) gotorch1(op string, f func(gotorch.Tensor) gotorch.Tensor) Tensor {
	t.in(op)
	return viaGotorch(op, func() gotorch.Tensor { return f(raw(t)) }, t)
}

func (t Tensor) gotorch2(op string, f func(a, b gotorch.Tensor) gotorch.Tensor, o Tensor) Tensor {
	t.in(op)
	o.in(op)
	return viaGotorch(op, func() gotorch.Tensor { return f(raw(t), raw(o)) }, t, o)
}

// Add returns t + o.
func (t Tensor) Add(o Tensor) Tensor {
	return t.gotorch2("Add", func(a, b gotorch.Tensor) gotorch.Tensor { return gotorch.Add(a, b, 1) }, o)
}

// Sub returns t - o.
func (t Tensor) Sub(o Tensor) Tensor {
	return t.gotorch2("Sub", func(a, b gotorch.Tensor) gotorch.Tensor { return gotorch.Sub(a, b, 1) }, o)
}

// Mul returns t · o, element by element.
func (t Tensor) Mul(o Tensor) Tensor { return t.gotorch2("Mul", gotorch.Mul, o) }

// Div returns t / o, element by element.
func (t Tensor) Div(o Tensor) Tensor { return t.gotorch2("Div", gotorch.Div, o) }

// AddScalar returns t + v.
func (t Tensor) AddScalar(v float64) Tensor { return t.scalar("AddScalar", C.OM_ADD_S, v) }

// MulScalar returns t · v.
func (t Tensor) MulScalar(v float64) Tensor { return t.scalar("MulScalar", C.OM_MUL_S, v) }

// Neg returns -t.
func (t Tensor) Neg() Tensor { return t.unary("Neg", C.OM_NEG) }

// Exp returns e to the power of t, element by element.
func (t Tensor) Exp() Tensor { return t.unary("Exp", C.OM_EXP) }

// Log returns the natural logarithm of each element.
func (t Tensor) Log() Tensor { return t.unary("Log", C.OM_LOG) }

// Sqrt returns the square root of each element.
func (t Tensor) Sqrt() Tensor { return t.unary("Sqrt", C.OM_SQRT) }

// Abs returns |t|.
func (t Tensor) Abs() Tensor { return t.unary("Abs", C.OM_ABS) }

// Square returns t².
func (t Tensor) Square() Tensor { return t.unary("Square", C.OM_SQUARE) }

// Sigmoid returns 1 / (1 + e^-t).
func (t Tensor) Sigmoid() Tensor { return t.gotorch1("Sigmoid", gotorch.Sigmoid) }

// Clamp returns min(max(t, lo), hi).
func (t Tensor) Clamp(lo, hi float64) Tensor {
	var out C.om_tensor
	return result("Clamp", C.om_clamp(t.in("Clamp"), C.double(lo), C.double(hi), &out), &out, t)
}

// Minimum returns the smaller of t and o, element by element.
func (t Tensor) Minimum(o Tensor) Tensor { return t.binary("Minimum", C.OM_MINIMUM, o) }

// Maximum returns the larger of t and o, element by element.
func (t Tensor) Maximum(o Tensor) Tensor { return t.binary("Maximum", C.OM_MAXIMUM, o) }

// MatMul returns the matrix product. With more than two dimensions the leading ones are batches.
func (t Tensor) MatMul(o Tensor) Tensor {
	t.in("MatMul")
	o.in("MatMul")
	if t.Dim() == 2 && o.Dim() == 2 {
		return t.gotorch2("MatMul", gotorch.MM, o)
	}
	return t.binary("MatMul", C.OM_MATMUL, o)
}

// Linear returns t [...,I] · w [O,I]ᵀ + bias [O]; bias may be the zero Tensor.
func (t Tensor) Linear(w, bias Tensor) Tensor {
	var out C.om_tensor
	return result("Linear", C.om_linear(t.in("Linear"), w.in("Linear"), bias.opt("Linear"), &out), &out, t, w, bias)
}

// The names of in-place operations end in an underscore, as in libtorch.
// Outside NoGrad they must not be used on tensors that require gradients.

// Copy_ copies src into t, converted to t's type.
func (t Tensor) Copy_(src Tensor) {
	check("Copy_", C.om_copy_(t.in("Copy_"), src.in("Copy_")), t, src)
}

// Zero_ sets every element to 0.
func (t Tensor) Zero_() {
	check("Zero_", C.om_fill_(t.in("Zero_"), 0), t)
}

// Add_ adds alpha · x.
func (t Tensor) Add_(x Tensor, alpha float64) {
	check("Add_", C.om_add_(t.in("Add_"), x.in("Add_"), C.double(alpha)), t, x)
}
