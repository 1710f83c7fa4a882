package model

// qwen3: grouped-query attention that normalises every query and key head
// before the rotation (Qwen3, dense).
func init() {
	families.Register("qwen3", family{
		architecture: "Qwen3ForCausalLM",
		headNorm:     true,
		headDim:      128,
		idleWindow:   true,
		writesBias:   true,
	})
}
