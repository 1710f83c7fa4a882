package model

import "github.com/openmanus/openmanus/torch/nn"

// Qwen2 and Qwen2.5 (Yang et al. 2024, arXiv:2407.10671): llama with biases on
// queries, keys and values. Their config.json has a sliding_window that
// use_sliding_window switches off.
func init() {
	families.Register("qwen2", family{
		class: "Qwen2ForCausalLM",
		block: func(c *Config, _ int) nn.Layer {
			return newPreNorm(c, c.attention(true), c.swiGLU())
		},
		ignored: []string{"sliding_window"},
	})
}
