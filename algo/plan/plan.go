package plan

// Step describes the training steps of a run. Every size is the largest that the run may reach.
type Step struct {
	Episodes int // episodes of a step
	Context  int // tokens of an episode
	Sampled  int // sampled tokens of an episode
	Sessions int // episodes played at once

	MicroTokens int // tokens of a micro-batch
	Passes      int // passes of the update over the episodes
	Updates     int // optimiser steps

	Reference bool  // a frozen copy of the model scores the episodes
	Critic    bool  // a second model of the same shape is trained
	Old       bool  // the old log-probs need a pass
	KVTokens  int   // tokens of the KV cache
	Other     int64 // memory of the program, its libraries and other models
}

// reserve is the share that is added to the tensors. Predictions without it are up to 9 % too low (plan_test.go).
const reserve = 0.08

// Part is the memory that one purpose takes, such as weights or activations.
type Part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Phase is the time of a part of a step.
type Phase struct {
	Name      string  `json:"name"`
	Tokens    int     `json:"tokens"` // tokens that the phase processes
	PerSecond float64 `json:"tokens_per_second"`
	Seconds   float64 `json:"seconds"`
}

// logitsChunk is the size of the logits that the log-probs compute at once (torch/shim/fused_token_logprobs.cc).
const logitsChunk = 32 << 20

func logitsBytes(tokens, vocabulary int) int64 {
	return min(int64(tokens)*int64(vocabulary)*4, max(logitsChunk, int64(vocabulary)*4))
}

// Memory returns the memory of a step by purpose, at its largest: during the update.
func (c *Costs) Memory(s Step) ([]Part, error) {
	n, err := c.o.Config.NumParameters()
	if err != nil {
		return nil, err
	}
	weights, trained := int64(n), int64(c.trained.of(&c.o.Config))
	width := int64(c.o.Compute.Size())
	copied := width < 4 && c.o.LoRA == nil
	var parts []Part
	add := func(name string, bytes int64) {
		if bytes > 0 {
			parts = append(parts, Part{name, bytes})
		}
	}
	model := func(of string) {
		switch {
		case c.o.LoRA != nil:
			add(of+"frozen weights", weights*width)
			add(of+"adapters", 4*trained)
		default:
			add(of+"weights", 4*weights)
		}
		if copied {
			add(of+"copy of the weights in "+c.o.Compute.String(), weights*width)
		}
		add(of+"optimiser", 8*trained)
	}
	model("")
	if s.Critic {
		model("critic: ")
	}
	if s.Reference && c.o.LoRA == nil {
		add("reference", weights*width)
	}
	gradients := 4 * trained
	if copied {
		gradients += width * trained
	}
	add("gradients", gradients)
	add("KV cache", int64(s.KVTokens)*c.KVBytes())
	add("activations of a micro-batch", int64(float64(s.MicroTokens)*(c.kept.of(&c.o.Config)+c.transient)))
	add("logits", logitsBytes(s.MicroTokens, c.o.Config.VocabSize))
	add("program, libraries and other models", s.Other)
	add("reserve for short-lived tensors", int64(reserve*float64(Total(parts)-s.Other)))
	return parts, nil
}

// KVBytes returns the size in bytes of a token in the KV cache.
func (c *Costs) KVBytes() int64 {
	m := &c.o.Config
	return int64(2 * m.NumHiddenLayers * m.NumKeyValueHeads * m.HeadDim * c.o.Compute.Size())
}

// Total returns the sum of the parts in bytes.
func Total(parts []Part) (bytes int64) {
	for _, p := range parts {
		bytes += p.Bytes
	}
	return bytes
}

// Time returns the time of a step by phase without the time of environments and
// score functions.
func (c *Costs) Time(s Step) []Phase {
	var phases []Phase
	add := func(name string, tokens int, perToken float64) {
		if tokens > 0 && perToken > 0 {
			phases = append(phases, Phase{name, tokens, 1 / perToken, float64(tokens) * perToken})
		}
	}
	m := &c.o.Config
	all := s.Episodes * s.Context
	at := max(1, min(c.o.Rows, s.Sessions, s.Episodes))
	add("prompts and observations", s.Episodes*(s.Context-s.Sampled), c.prefill.of(m))
	add("sampling", s.Episodes*s.Sampled, c.decode.of(m)/float64(at))
	if s.Old {
		add("old log-probs", all, c.forward.of(m))
	}
	if s.Reference {
		add("reference", all, c.forward.of(m))
	}
	update := c.update.of(m) + c.optimize*c.trained.of(m)*float64(s.Updates)/float64(max(1, all*s.Passes))
	if s.Critic {
		add("values", all, c.forward.of(m))
		add("critic update", all*s.Passes, update)
	}
	add("policy update", all*s.Passes, update)
	return phases
}
