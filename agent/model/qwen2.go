package model

import (
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
)

func init() {
	register("qwen2", family{
		architecture: "Qwen2ForCausalLM",
		attention:    func(*Config) selfAttention { return new(Qwen2Attention) },
		idleWindow:   true,
	})
}

// Qwen2Attention is grouped-query attention with biases on queries, keys and
// values (Qwen2 and Qwen2.5).
type Qwen2Attention struct {
	QProj nn.Linear // q_proj, with a bias
	KProj nn.Linear // k_proj, with a bias
	VProj nn.Linear // v_proj, with a bias
	OProj nn.Linear // o_proj
}

func (a *Qwen2Attention) project(x torch.Tensor, p *pass) (q, k, v torch.Tensor) {
	y := p.linears(x, &a.QProj, &a.KProj, &a.VProj)
	return p.heads(y[0]), p.heads(y[1]), p.heads(y[2])
}

func (a *Qwen2Attention) output(x torch.Tensor, p *pass) torch.Tensor { return p.linear(x, &a.OProj) }

func (a *Qwen2Attention) weights(c *Config) []weight {
	q, kv := c.queryWidth(), c.keyWidth()
	return []weight{
		{"q_proj.weight", &a.QProj.Weight, []int{q, c.HiddenSize}},
		{"q_proj.bias", &a.QProj.Bias, []int{q}},
		{"k_proj.weight", &a.KProj.Weight, []int{kv, c.HiddenSize}},
		{"k_proj.bias", &a.KProj.Bias, []int{kv}},
		{"v_proj.weight", &a.VProj.Weight, []int{kv, c.HiddenSize}},
		{"v_proj.bias", &a.VProj.Bias, []int{kv}},
		{"o_proj.weight", &a.OProj.Weight, []int{c.HiddenSize, q}},
	}
}
