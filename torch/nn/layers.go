package nn

import (
	"math"

	"github.com/openmanus/openmanus/torch"
)

// Attention is full causal self-attention with grouped queries (Ainslie et al. 2023): each key and value head is shared
// by Hq/Hkv query heads. QNorm and KNorm, if set, normalise each head of the queries and keys before the rotation.
type Attention struct {
	QProj Linear   `hf:"q_proj" gguf:"attn_q,rotary"` // [Hq·Dh,D]
	KProj Linear   `hf:"k_proj" gguf:"attn_k,rotary"` // [Hkv·Dh,D]
	VProj Linear   `hf:"v_proj" gguf:"attn_v"`        // [Hkv·Dh,D]
	OProj Linear   `hf:"o_proj" gguf:"attn_output"`   // [D,Hq·Dh]
	QNorm *RMSNorm `hf:"q_norm" gguf:"attn_q_norm"`   // [Dh]; nil: no norm
	KNorm *RMSNorm `hf:"k_norm" gguf:"attn_k_norm"`   // [Dh]; nil: no norm

	HeadDim int // Dh
}

// Forward maps x [N,D] to [N,D].
func (a *Attention) Forward(p *Pass, x torch.Tensor) torch.Tensor {
	y := p.Linear(x, &a.QProj, &a.KProj, &a.VProj)
	q, k, v := a.heads(y[0]), a.heads(y[1]), a.heads(y[2])
	return p.Out(p.AttendNormed(q, k, v, a.QNorm, a.KNorm, 1/math.Sqrt(float64(a.HeadDim))), &a.OProj)
}

// Adjacent lists the layers whose weights should be adjacent in memory, see torch.Linears.
func (a *Attention) Adjacent() []*Linear { return []*Linear{&a.QProj, &a.KProj, &a.VProj} }

// heads splits [N,H·Dh] into [N,H,Dh].
func (a *Attention) heads(x torch.Tensor) torch.Tensor { return x.View(x.Size(0), -1, a.HeadDim) }

// QueryWidth returns Hq·Dh.
func (a *Attention) QueryWidth() int { return a.QProj.Out }

// SwiGLU is the gated feed-forward block down(silu(gate(x)) · up(x)) (Shazeer 2020, eq. 6).
type SwiGLU struct {
	GateProj Linear `hf:"gate_proj" gguf:"ffn_gate"` // [F,D]
	UpProj   Linear `hf:"up_proj" gguf:"ffn_up"`     // [F,D]
	DownProj Linear `hf:"down_proj" gguf:"ffn_down"` // [D,F]
}

// Forward maps x [N,D] to [N,D].
func (m *SwiGLU) Forward(p *Pass, x torch.Tensor) torch.Tensor {
	y := p.Linear(x, &m.GateProj, &m.UpProj)
	return p.Out(torch.SwiGLU(y[0], y[1]), &m.DownProj)
}

// Adjacent lists the layers whose weights should be adjacent in memory, see torch.Linears.
func (m *SwiGLU) Adjacent() []*Linear { return []*Linear{&m.GateProj, &m.UpProj} }
