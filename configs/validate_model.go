package configs

import (
	"slices"
)

func (c *Config) checkModel(fs *Faults) {
	c.checkLoRA(fs)
	f := c.Model.Fresh
	switch {
	case c.Rollout.Engine == openai: // the endpoint provides the model
	case c.Model.Path == "" && f.Layers == 0:
		fs.add("model.path", "no model: give a folder or a .gguf file, or set model.fresh.layers for a new model with random weights")
	case c.Model.Path != "" && f.Layers != 0:
		fs.add("model.fresh.layers", "model.path names a model: take out one of the two")
	}
	if f.Layers == 0 {
		return
	}
	if f.Heads < 1 || f.KVHeads < 1 {
		return
	}
	switch {
	case f.HiddenSize%f.Heads != 0:
		fs.add("model.fresh.heads", "%d does not divide hidden_size %d", f.Heads, f.HiddenSize)
	case f.HiddenSize/f.Heads%2 != 0:
		fs.add("model.fresh.heads", "the head size %d is odd: rotary positions need an even one", f.HiddenSize/f.Heads)
	}
	if f.Heads%f.KVHeads != 0 {
		fs.add("model.fresh.kv_heads", "%d does not divide heads %d", f.KVHeads, f.Heads)
	}
	if c.Model.TokenizerPath != "" {
		fs.add("model.tokenizer_path", "a fresh model builds a vocabulary: take it out")
	}
}

func (c *Config) checkLoRA(fs *Faults) {
	m := c.Model
	switch {
	case m.LoRARank == 0:
		return
	case m.Fresh.Layers > 0:
		fs.add("model.lora_rank", "adapters would freeze the random weights of a fresh model: set it to 0")
	}
	if len(m.TargetModules) == 0 {
		fs.add("model.target_modules", "no layer gets an adapter: name some, or give [%q]", allLinear)
	}
	if len(m.TargetModules) > 1 && slices.Contains(m.TargetModules, allLinear) {
		fs.add("model.target_modules", "%q already means every layer: take out the others", allLinear)
	}
}
