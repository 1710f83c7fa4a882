package torch

// #include "openmanus_torch.h"
import "C"

// RMSNorm is x / √(mean(x²) + eps) · w over the last dimension: x [...,D], w [D]. As in transformers it is computed in
// float32 and rounded to x's type before it is multiplied by w.
func RMSNorm(x, w Tensor, eps float64) Tensor {
	var out C.om_tensor
	check("RMSNorm", C.om_rmsnorm(x.in("RMSNorm"), w.in("RMSNorm"), C.double(eps), &out), x, w)
	return x.out(out)
}

// RoPE rotates the pairs (q[i], q[i+Dh/2]) of every head by the token's angles, as transformers' rotate_half does:
// q [N,H,Dh], cos and sin [N,Dh/2]. No gradient flows to cos and sin.
func RoPE(q, cos, sin Tensor) Tensor {
	var out C.om_tensor
	check("RoPE", C.om_rope(q.in("RoPE"), cos.in("RoPE"), sin.in("RoPE"), &out), q, cos, sin)
	return q.out(out)
}

// SwiGLU is silu(gate) · up.
func SwiGLU(gate, up Tensor) Tensor {
	var out C.om_tensor
	check("SwiGLU", C.om_swiglu(gate.in("SwiGLU"), up.in("SwiGLU"), &out), gate, up)
	return gate.out(out)
}
