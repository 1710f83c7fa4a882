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

func (a *LlamaAttention) project(x torch.Tensor, c *Config) (q, k, v torch.Tensor) {
	return heads(a.QProj.Forward(x), c), heads(a.KProj.Forward(x), c), heads(a.VProj.Forward(x), c)
}

func (a *LlamaAttention) output(x torch.Tensor) torch.Tensor { return a.OProj.Forward(x) }

func (a *LlamaAttention) weights(c *Config) []weight {
	q, kv := c.queryWidth(), c.keyWidth()
	return []weight{
		{"q_proj.weight", &a.QProj.Weight, []int{q, c.HiddenSize}},
		{"k_proj.weight", &a.KProj.Weight, []int{kv, c.HiddenSize}},
		{"v_proj.weight", &a.VProj.Weight, []int{kv, c.HiddenSize}},
		{"o_proj.weight", &a.OProj.Weight, []int{c.HiddenSize, q}},
	}
}

// heads splits [N,H·Dh] into [N,H,Dh].
func heads(x torch.Tensor, c *Config) torch.Tensor { return x.View(x.Size(0), -1, c.HeadDim) }

func (c *Config) queryWidth() int { return c.NumAttentionHeads * c.HeadDim }
func (c *Config) keyWidth() int   { return c.NumKeyValueHeads * c.HeadDim }
