package plan

import (
	"slices"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch/shard"
)

// Part is the memory that one purpose takes, such as weights or activations.
type Part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Total returns the sum of the parts in bytes.
func Total(parts []Part) (bytes int64) {
	for _, p := range parts {
		bytes += p.Bytes
	}
	return bytes
}

// Memory is the memory of a rank in the phase of a step in which it is largest.
type Memory struct {
	Phase string // "update" or "rollout"
	Parts []Part
}

// reserve is the share that is added to the tensors. Predictions without it are up to 9 % too low (plan_test.go).
const reserve = 0.08

// logitsChunk is the size of the logits that the log-probs compute at once (torch/shim/fused_token_logprobs.cc).
const logitsChunk = 32 << 20

// bucketBytes is the size of the buffer in which the optimiser sums small gradients over the ranks (torch/optim).
const bucketBytes = 64 << 20

func logitsBytes(tokens, vocabulary int) int64 {
	return min(int64(tokens)*int64(vocabulary)*4, max(logitsChunk, int64(vocabulary)*4))
}

// account adds up the memory of a rank.
type account struct {
	c     *Costs
	s     Step
	parts []Part

	weights, trained int64 // numbers of parameters of a model
	unit             int64 // number of parameters of the largest shard.Unit
	width            int64 // bytes of a number in the compute type
	copied           bool  // computation uses a copy of the float32 weights
}

func (c *Costs) account(s Step) (*account, error) {
	n, err := c.o.Config.NumParameters()
	if err != nil {
		return nil, err
	}
	deeper := c.o.Config
	deeper.NumHiddenLayers++
	more, err := deeper.NumParameters()
	if err != nil {
		return nil, err
	}
	a := &account{c: c, s: s, weights: int64(n), trained: int64(c.trained.of(&c.o.Config)), width: int64(c.o.Compute.Size())}
	a.unit = int64(max(more-n, c.o.Config.VocabSize*c.o.Config.HiddenSize))
	a.copied = a.width < 4 && c.o.LoRA == nil
	return a, nil
}

func (a *account) add(name string, bytes int64) {
	if bytes > 0 {
		a.parts = append(a.parts, Part{name, bytes})
	}
}

// sharded returns the bytes that a rank holds of tensors that the ranks shard from a level on.
func (a *account) sharded(level shard.Level, bytes int64) int64 {
	if n := int64(a.s.Ranks.trainers()); a.s.Ranks.Level >= level {
		return (bytes + n - 1) / n
	}
	return bytes
}

// level returns the level of sharding; one rank shards nothing.
func (a *account) level() shard.Level {
	if a.s.Ranks.trainers() == 1 {
		return shard.None
	}
	return a.s.Ranks.Level
}

// trainedModel adds the weights and moments of a trained model.
func (a *account) trainedModel(of string) {
	switch {
	case a.c.o.LoRA != nil:
		a.add(of+"frozen weights", a.sharded(shard.Weights, a.weights*a.width))
		a.add(of+"adapters", 4*a.trained)
	case a.copied:
		a.add(of+"weights", a.sharded(shard.Optimizer, 4*a.weights))
		a.add(of+"copy of the weights in "+a.c.o.Compute.String(), a.sharded(shard.Weights, a.weights*a.width))
	default:
		a.add(of+"weights", a.sharded(shard.Weights, 4*a.weights))
	}
	a.add(of+"optimiser", a.sharded(shard.Optimizer, 8*a.trained))
}

// always adds the memory of all phases.
func (a *account) always() error {
	a.trainedModel("")
	if a.s.Ranks.Workers == 0 { // otherwise the workers sample
		a.int8Copies()
	}
	if a.s.Critic {
		a.trainedModel("critic: ")
	}
	if a.s.Reference && a.c.o.LoRA == nil {
		a.add("reference", a.sharded(shard.Weights, a.weights*a.width))
	}
	if n := a.s.Ranks.TensorParallel; n > 1 {
		local, err := a.c.tensorParallel(n)
		if err != nil {
			return err
		}
		part, err := local.NumParameters()
		if err != nil {
			return err
		}
		a.add("tensor-parallel weights", int64(part)*a.width)
	}
	return nil
}

// int8Copies adds the int8 weights of sampling: a byte for every parameter except an embedding that is not the head too.
func (a *account) int8Copies() {
	if c := &a.c.o.Config; a.c.o.Int8 {
		bytes := a.weights
		if !c.TieWordEmbeddings {
			bytes -= int64(c.VocabSize) * int64(c.HiddenSize)
		}
		a.add("int8 copy of the weights", bytes)
	}
}

func (a *account) kvCache() {
	a.add("KV cache", int64(a.s.KVTokens)*a.c.KVBytes(a.s.Ranks.TensorParallel))
}

// gradients adds the gradients of an update.
func (a *account) gradients() {
	const master = 4 // gradients are summed in float32
	var backward, sums, sent int64
	unit, width := a.unit, a.width
	if a.c.o.LoRA != nil { // all adapters are one unit, in float32
		unit, width = a.trained, master
	}
	switch level := a.level(); {
	case level >= shard.Gradients: // unit by unit
		backward = width * unit
		sums, sent = a.sharded(shard.Gradients, master*a.trained), master*unit+a.sharded(shard.Gradients, master*unit)
	default:
		sums = master * a.trained
		if a.copied {
			backward = a.width * a.trained
		}
		switch {
		case a.s.Ranks.trainers() == 1:
		case level == shard.Optimizer:
			sent = master*unit + a.sharded(shard.Optimizer, master*unit)
		default:
			sent = min(bucketBytes, sums)
		}
	}
	a.add("gradients", sums+backward)
	a.add("gradients sent to other processes", sent)
}

// Memory returns the memory of a rank that trains, in the phase in which it is largest.
func (c *Costs) Memory(s Step) (Memory, error) {
	update, err := c.account(s)
	if err != nil {
		return Memory{}, err
	}
	if err := update.always(); err != nil {
		return Memory{}, err
	}
	rollout := *update
	rollout.parts = slices.Clone(update.parts)
	rollout.kvCache()
	if !s.KVFreed {
		update.kvCache()
	}
	if update.level() == shard.Weights {
		update.add("gathered layer", update.unit*update.width)
		if s.Ranks.TensorParallel <= 1 && s.Ranks.Workers == 0 {
			rollout.add("gathered weights", rollout.weights*rollout.width)
		}
	}
	update.gradients()
	update.add("activations of a micro-batch", int64(float64(s.MicroTokens)*(c.kept.of(&c.o.Config)+c.transient)))
	update.add("logits", logitsBytes(s.MicroTokens, c.o.Config.VocabSize))
	update.rest()
	rollout.rest()
	if Total(rollout.parts) > Total(update.parts) {
		return Memory{"rollout", rollout.parts}, nil
	}
	return Memory{"update", update.parts}, nil
}

// WorkerMemory returns the memory of a rank that only plays.
func (c *Costs) WorkerMemory(s Step) (Memory, error) {
	a, err := c.account(s)
	if err != nil {
		return Memory{}, err
	}
	if a.add("weights", a.weights*a.width); c.o.LoRA != nil {
		a.add("adapters", 4*a.trained)
	}
	a.int8Copies()
	a.add("KV cache", int64(s.KVTokens)*c.KVBytes(1))
	a.rest()
	return Memory{"rollout", a.parts}, nil
}

// rest adds the memory of other things than tensors of the model.
func (a *account) rest() {
	tensors := Total(a.parts)
	a.add("program, libraries and other models", a.s.Other)
	a.add("reserve for short-lived tensors", int64(reserve*float64(tensors)))
}

// tensorParallel returns the configuration of the part of the model that one of n ranks generates with.
func (c *Costs) tensorParallel(n int) (model.Config, error) {
	local, err := c.o.Config.Local(n)
	local.VocabSize = (c.o.Config.VocabSize + n - 1) / n
	return local, err
}

// KVBytes returns the size in bytes of a token in the KV cache of one of n ranks that hold a model together.
func (c *Costs) KVBytes(n int) int64 {
	m := c.o.Config
	heads := max(1, m.NumKeyValueHeads/max(1, n))
	return int64(2 * m.NumHiddenLayers * heads * m.HeadDim * c.o.Compute.Size())
}
