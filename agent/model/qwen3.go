package model

import (
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
)

func init() {
	register("qwen3", family{
		architecture: "Qwen3ForCausalLM",
		attention: func(c *Config) selfAttention {
			return &Qwen3Attention{QNorm: nn.RMSNorm{Eps: c.RMSNormEps}, KNorm: nn.RMSNorm{Eps: c.RMSNormEps}}
		},
		headDim:    128,
		idleWindow: true,
		writesBias: true,
	})
}

// Qwen3Attention is grouped-query attention that normalises every query and
// key head before the rotation (Qwen3, dense).
type Qwen3Attention struct {
	QProj nn.Linear  // q_proj
	KProj nn.Linear  // k_proj
	VProj nn.Linear  // v_proj
	OProj nn.Linear  // o_proj
	QNorm nn.RMSNorm // q_norm, over one head
	KNorm nn.RMSNorm // k_norm, over one head
}

func (a *Qwen3Attention) project(x torch.Tensor, p *pass) (q, k, v torch.Tensor) {
	y := p.linears(x, &a.QProj, &a.KProj, &a.VProj)
	return a.QNorm.Forward(p.heads(y[0])), a.KNorm.Forward(p.heads(y[1])), p.heads(y[2])
}

func (a *Qwen3Attention) output(x torch.Tensor, p *pass) torch.Tensor { return p.linear(x, &a.OProj) }

func (a *Qwen3Attention) weights(c *Config) []weight {
	q, kv := c.queryWidth(), c.keyWidth()
	return []weight{
		{"q_proj.weight", &a.QProj.Weight, []int{q, c.HiddenSize}},
		{"k_proj.weight", &a.KProj.Weight, []int{kv, c.HiddenSize}},
		{"v_proj.weight", &a.VProj.Weight, []int{kv, c.HiddenSize}},
		{"o_proj.weight", &a.OProj.Weight, []int{c.HiddenSize, q}},
		{"q_norm.weight", &a.QNorm.Weight, []int{c.HeadDim}},
		{"k_norm.weight", &a.KNorm.Weight, []int{c.HeadDim}},
	}
}
