package model

import (
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
)

func init() {
	register("llama", family{
		architecture: "LlamaForCausalLM",
		attention:    func(*Config) selfAttention { return new(LlamaAttention) },
		writesBias:   true,
		ggufPermuted: true,
	})
}

// LlamaAttention is grouped-query attention without biases (Llama 1 to 3,
// SmolLM2 and the many models that follow them).
type LlamaAttention struct {
	QProj nn.Linear // q_proj
	KProj nn.Linear // k_proj
	VProj nn.Linear // v_proj
	OProj nn.Linear // o_proj
}

func (a *LlamaAttention) project(x torch.Tensor, p *pass) (q, k, v torch.Tensor) {
	y := p.linears(x, &a.QProj, &a.KProj, &a.VProj)
	return p.heads(y[0]), p.heads(y[1]), p.heads(y[2])
}

func (a *LlamaAttention) output(x torch.Tensor, p *pass) torch.Tensor { return p.linear(x, &a.OProj) }

func (a *LlamaAttention) weights(c *Config) []weight {
	q, kv := c.queryWidth(), c.keyWidth()
	return []weight{
		{"q_proj.weight", &a.QProj.Weight, []int{q, c.HiddenSize}},
		{"k_proj.weight", &a.KProj.Weight, []int{kv, c.HiddenSize}},
		{"v_proj.weight", &a.VProj.Weight, []int{kv, c.HiddenSize}},
		{"o_proj.weight", &a.OProj.Weight, []int{c.HiddenSize, q}},
	}
}

func (c *Config) queryWidth() int { return c.NumAttentionHeads * c.HeadDim }
func (c *Config) keyWidth() int   { return c.NumKeyValueHeads * c.HeadDim }
