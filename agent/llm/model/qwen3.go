package model

import "github.com/openmanus/openmanus/torch/nn"

// Qwen3, dense (Yang et al. 2025, arXiv:2505.09388): llama with an RMS norm on
// every head of the queries and keys before the rotation.
func init() {
	families.Register("qwen3", family{
		class: "Qwen3ForCausalLM",
		block: func(c *Config, _ int) nn.Layer {
			attn, q, k := c.attention(false), c.norm(c.HeadDim), c.norm(c.HeadDim)
			attn.QNorm, attn.KNorm = &q, &k
			return newPreNorm(c, attn, c.swiGLU())
		},
		defaults: func(c *Config) {
			if c.HeadDim == 0 {
				c.HeadDim = 128
			}
		},
		ignored:     []string{"sliding_window"},
		writesFalse: []string{"attention_bias"},
	})
}
