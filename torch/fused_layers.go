package torch

// #include "openmanus_torch.h"
import "C"

import "fmt"

// RMSNorm returns x / √(mean(x²) + eps) · w over the last dimension: x [...,D], w [D]. As in
// transformers it is computed in float32 and rounded to x's type before it is multiplied by w.
func RMSNorm(x, w Tensor, eps float64) Tensor {
	var out C.om_tensor
	return result("RMSNorm", C.om_rmsnorm(x.in("RMSNorm"), w.in("RMSNorm"), C.double(eps), &out), &out, x, w)
}

// RMSNormResidual returns RMSNorm(x, w, eps) and x. On a GPU one operation of the backward pass adds the gradients of both results,
// where x itself would take two.
func RMSNormResidual(x, w Tensor, eps float64) (y, residual Tensor) {
	const op = "RMSNormResidual"
	var a, b C.om_tensor
	check(op, C.om_rmsnorm_residual(x.in(op), w.in(op), C.double(eps), &a, &b), x, w)
	return x.out(a), x.out(b)
}

// Linears applies linear layers to x [...,I]: the results are x · wsᵀ + bias, for weights [O,I] and biases [O] or zero Tensors. On a
// GPU, layers of x [N,I] whose weights lie one after another in memory are one product, and the backward pass adds to the gradients
// of leaves in place.
func Linears(x Tensor, ws, biases []Tensor) []Tensor {
	const op = "Linears"
	if len(biases) != len(ws) || len(ws) == 0 {
		Fail(op, fmt.Sprintf("%d weights with %d biases", len(ws), len(biases)), x)
	}
	out := make([]C.om_tensor, len(ws))
	check(op, C.om_linears(x.in(op), pointers(op, ws), pointers(op, biases), C.int64_t(len(ws)), &out[0]), append([]Tensor{x}, ws...)...)
	ts := make([]Tensor, len(ws))
	for i, p := range out {
		ts[i] = x.out(p)
	}
	return ts
}

// LinearResidual returns x [N,O] + h [N,I] · wᵀ for w [O,I], on a GPU in one operation.
func LinearResidual(x, h, w Tensor) Tensor {
	const op = "LinearResidual"
	var out C.om_tensor
	return result(op, C.om_linear_residual(x.in(op), h.in(op), w.in(op), &out), &out, x, h, w)
}

// HeadNorm is an RMSNorm of every head [Dh]; without a weight there is no norm.
type HeadNorm struct {
	Weight Tensor // [Dh], or the zero Tensor
	Eps    float64
}

// RoPEHeads rotates the pairs (q[i], q[i+Dh/2]) of the query heads q [N,Hq,Dh] and of the key heads k [N,Hkv,Dh] by the token's angles,
// as transformers' rotate_half does, after their norms: cos and sin [N,Dh/2], without a gradient. It also returns v [N,Hkv,Dh]. On a
// GPU it is one operation, forward and backward.
func RoPEHeads(q, k, v, cos, sin Tensor, qn, kn HeadNorm) (qr, kr, vr Tensor) {
	const op = "RoPEHeads"
	var out [3]C.om_tensor
	check(op, C.om_rope_heads(q.in(op), k.in(op), v.in(op), cos.in(op), sin.in(op), qn.Weight.opt(op), C.double(qn.Eps),
		kn.Weight.opt(op), C.double(kn.Eps), &out[0]), q, k, v)
	return q.out(out[0]), q.out(out[1]), q.out(out[2])
}

// RoPEWrite returns q rotated as by RoPEHeads, and writes k rotated and v to the caches kc and vc as CacheWrite does. There is no
// gradient.
func RoPEWrite(q, k, v, cos, sin, kc, vc Tensor, slots []int64) Tensor {
	const op = "RoPEWrite"
	var out C.om_tensor
	p, n := dims(slots)
	return result(op, C.om_rope_write(q.in(op), k.in(op), v.in(op), cos.in(op), sin.in(op), kc.in(op), vc.in(op), p, n, &out), &out, q, k, v, kc)
}

// LinearAdd adds h [N,I] · wᵀ to x [N,O] in place, for w [O,I], in one operation. There is no gradient. On the CPU N is at most SkinnyRows,
// and the bits are those of LinearsSkinny and Add.
func LinearAdd(x, h, w Tensor) {
	const op = "LinearAdd"
	check(op, C.om_linear_add_(x.in(op), h.in(op), w.in(op)), x, h, w)
}

// SwiGLU returns silu(gate) · up.
func SwiGLU(gate, up Tensor) Tensor {
	var out C.om_tensor
	return result("SwiGLU", C.om_swiglu(gate.in("SwiGLU"), up.in("SwiGLU"), &out), &out, gate, up)
}

// SkinnyRows is the largest number of rows that LinearsSkinny takes.
const SkinnyRows = C.OM_SKINNY_ROWS

// LinearsSkinny applies several linear layers to the few rows of a decoding step, such as q, k and v. Its kernels read the
// weights at memory speed. x is [...,K] with at most SkinnyRows rows, each of ws is [M,K]; biases is nil, or has a bias [M] or
// the zero Tensor for each weight. x and ws are float32 or bfloat16, not necessarily the same; results have x's type. On the
// CPU the result of a row does not depend on the other rows or on their number. There is no gradient: an operand that requires
// one is an error outside NoGrad.
func LinearsSkinny(x Tensor, ws, biases []Tensor) []Tensor {
	const op = "LinearSkinny"
	if biases != nil && len(biases) != len(ws) {
		Fail(op, fmt.Sprintf("%d weights with %d biases", len(ws), len(biases)), x)
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
