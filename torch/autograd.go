package torch

// #include "openmanus_torch.h"
import "C"

// setGradMode turns recording on or off on this OS thread and returns the previous setting.
func setGradMode(on bool) bool {
	var was C.int
	check("NoGrad", C.om_set_grad_enabled(cbool(on), &was))
	return was != 0
}

// RequiresGrad reports whether backward passes compute a gradient for t or for a tensor that t was computed from.
func (t Tensor) RequiresGrad() bool {
	var r C.int
	check("RequiresGrad", C.om_requires_grad(t.in("RequiresGrad"), &r), t)
	return r != 0
}

// SetRequiresGrad sets whether backward passes accumulate a gradient into t. t must be a leaf: not the result of a
// recorded operation.
func (t Tensor) SetRequiresGrad(on bool) {
	check("SetRequiresGrad", C.om_set_requires_grad(t.in("SetRequiresGrad"), cbool(on)), t)
}

// Backward accumulates the gradients of t, which has one element, into the leaves of its graph that require gradients.
// It frees the graph.
func (t Tensor) Backward() {
	check("Backward", C.om_backward(t.in("Backward"), nil), t)
}

// BackwardWith runs the backward pass of the scalar Σ t·grad; t may have any shape.
func (t Tensor) BackwardWith(grad Tensor) {
	check("BackwardWith", C.om_backward(t.in("BackwardWith"), grad.in("BackwardWith")), t, grad)
}

// Grad returns the accumulated gradient, or the zero Tensor. The result shares memory with the gradient to which later
// backward passes add.
func (t Tensor) Grad() Tensor {
	var out C.om_tensor
	check("Grad", C.om_grad(t.in("Grad"), &out), t)
	if out == nil {
		return Tensor{}
	}
	return t.out(out)
}

// SetGrad sets the gradient of t to grad, without a copy.
func (t Tensor) SetGrad(grad Tensor) {
	check("SetGrad", C.om_set_grad(t.in("SetGrad"), grad.in("SetGrad")), t, grad)
}

// ZeroGrad drops the gradient.
func (t Tensor) ZeroGrad() {
	check("ZeroGrad", C.om_set_grad(t.in("ZeroGrad"), nil), t)
}

// Detach returns t without its autograd graph. The result shares the memory of t.
func (t Tensor) Detach() Tensor {
	t.in("Detach")
	g := raw(t)
	return viaGotorch("Detach", g.Detach, t)
}

func cbool(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
