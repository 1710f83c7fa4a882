package torch

// #include "openmanus_torch.h"
import "C"

// Ne returns t ≠ o as bool.
func (t Tensor) Ne(o Tensor) Tensor { return t.binary("Ne", C.OM_NE, o) }

// Le returns t ≤ o as bool.
func (t Tensor) Le(o Tensor) Tensor { return t.binary("Le", C.OM_LE, o) }

// Gt returns t > o as bool.
func (t Tensor) Gt(o Tensor) Tensor { return t.binary("Gt", C.OM_GT, o) }

// Ge returns t ≥ o as bool.
func (t Tensor) Ge(o Tensor) Tensor { return t.binary("Ge", C.OM_GE, o) }

// LtScalar returns t < v as bool.
func (t Tensor) LtScalar(v float64) Tensor { return t.scalar("LtScalar", C.OM_LT_S, v) }

// LeScalar returns t ≤ v as bool.
func (t Tensor) LeScalar(v float64) Tensor { return t.scalar("LeScalar", C.OM_LE_S, v) }

// GtScalar returns t > v as bool.
func (t Tensor) GtScalar(v float64) Tensor { return t.scalar("GtScalar", C.OM_GT_S, v) }

// GeScalar returns t ≥ v as bool.
func (t Tensor) GeScalar(v float64) Tensor { return t.scalar("GeScalar", C.OM_GE_S, v) }

// And returns t ∧ o as bool; nonzero elements are true.
func (t Tensor) And(o Tensor) Tensor { return t.binary("And", C.OM_AND, o) }

// Or returns t ∨ o as bool; nonzero elements are true.
func (t Tensor) Or(o Tensor) Tensor { return t.binary("Or", C.OM_OR, o) }

// Not returns true where t is 0.
func (t Tensor) Not() Tensor { return t.unary("Not", C.OM_NOT) }

// AllFinite reports whether every element is neither infinite nor NaN.
func (t Tensor) AllFinite() bool {
	f := t.unary("AllFinite", C.OM_ISFINITE)
	return f.unary("AllFinite", C.OM_ALL).Item() != 0
}

// Where returns the elements of a where cond (bool) is true, and of b elsewhere. The three broadcast.
func Where(cond, a, b Tensor) Tensor {
	var out C.om_tensor
	return result("Where", C.om_where(cond.in("Where"), a.in("Where"), b.in("Where"), &out), &out, cond, a, b)
}

// MaskedFill returns v where mask is true, and t elsewhere.
func (t Tensor) MaskedFill(mask Tensor, v float64) Tensor {
	var out C.om_tensor
	return result("MaskedFill", C.om_masked_fill(t.in("MaskedFill"), mask.in("MaskedFill"), C.double(v), &out), &out, t, mask)
}
