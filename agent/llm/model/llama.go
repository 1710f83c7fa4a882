package model

// llama: grouped-query attention without biases (Llama 1 to 3, SmolLM2 and the
// many models that follow them).
func init() {
	families.Register("llama", family{
		architecture: "LlamaForCausalLM",
		writesBias:   true,
		ggufPermuted: true,
	})
}
