package model

import "github.com/openmanus/openmanus/torch/nn"

// Llama 1 to 3 and models of the same layers, such as SmolLM2 (Touvron et al.
// 2023, arXiv:2302.13971; Grattafiori et al. 2024, arXiv:2407.21783):
// grouped-query attention and SwiGLU, without biases. Llama 1 has one key and
// value head per query head.
func init() {
	families.Register("llama", family{
		class: "LlamaForCausalLM",
		block: func(c *Config, _ int) nn.Layer {
			return newPreNorm(c, c.attention(false), c.swiGLU())
		},
		defaults: func(c *Config) {
			if c.NumKeyValueHeads == 0 {
				c.NumKeyValueHeads = c.NumAttentionHeads
			}
		},
		writesFalse:     []string{"attention_bias", "mlp_bias"},
		ggufInterleaved: true,
	})
}
