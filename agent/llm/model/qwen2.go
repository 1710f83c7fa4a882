package model

// qwen2: grouped-query attention with biases on queries, keys and values
// (Qwen2 and Qwen2.5).
func init() {
	families.Register("qwen2", family{
		architecture: "Qwen2ForCausalLM",
		qkvBias:      true,
		idleWindow:   true,
	})
}
