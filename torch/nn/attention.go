package nn

import (
	"math"

	"github.com/openmanus/openmanus/torch"
)

// Attention is causal self-attention in which several query heads share a key and value head (Ainslie et al. 2023).
// Llama has no biases, Qwen2 has some on q, k and v, and Qwen3 norms the heads of q and k.
type Attention struct {
	QProj Linear  // q_proj
	KProj Linear  // k_proj
	VProj Linear  // v_proj
	OProj Linear  // o_proj
	QNorm RMSNorm // q_norm, over one head; with a weight of none there is no norm
	KNorm RMSNorm // k_norm, likewise

	HeadDim int
}

// Forward is attention inside packed sequences x [N,D], sequence i being tokens offsets[i] … offsets[i+1]-1; cos and sin
// are [N,HeadDim/2]. The result is [N,D] and differentiable.
func (a *Attention) Forward(x, cos, sin torch.Tensor, offsets []int) torch.Tensor {
	q, k, v := a.rotate(a.QProj.Forward(x), a.KProj.Forward(x), a.VProj.Forward(x), cos, sin)
	return a.OProj.Forward(flat(torch.AttentionPacked(q, k, v, offsets, a.scale())))
}

// Decode writes the keys and values of the new tokens x [N,D] to the slots of the paged caches kc and vc, and attends to
// their sequences' whole contexts there. The result is [N,D]. Call it inside NoGrad.
func (a *Attention) Decode(x, cos, sin, kc, vc torch.Tensor, slots []int64, seqs torch.CachedSeqs) torch.Tensor {
	y := Infer(x, &a.QProj, &a.KProj, &a.VProj)
	q, k, v := a.rotate(y[0], y[1], y[2], cos, sin)
	torch.CacheWrite(kc, vc, k, v, slots)
	return Infer(flat(torch.AttentionCached(q, kc, vc, seqs, a.scale())), &a.OProj)[0]
}

// rotate splits q [N,Hq·Dh] and k, v [N,Hkv·Dh] into heads [N,H,Dh], norms those of q and k where there are norms, and
// turns them by their positions.
func (a *Attention) rotate(q, k, v, cos, sin torch.Tensor) (torch.Tensor, torch.Tensor, torch.Tensor) {
	q, k, v = a.heads(q), a.heads(k), a.heads(v)
	if !a.QNorm.Weight.None() {
		q = a.QNorm.Forward(q)
	}
	if !a.KNorm.Weight.None() {
		k = a.KNorm.Forward(k)
	}
	return torch.RoPE(q, cos, sin), torch.RoPE(k, cos, sin), v
}

func (a *Attention) heads(x torch.Tensor) torch.Tensor { return x.View(x.Size(0), -1, a.HeadDim) }

// flat joins the heads of each token: [N,H,Dh] to [N,H·Dh].
func flat(h torch.Tensor) torch.Tensor { return h.Reshape(h.Size(0), -1) }

func (a *Attention) scale() float64 { return 1 / math.Sqrt(float64(a.HeadDim)) }
