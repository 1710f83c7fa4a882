package plan

import "github.com/openmanus/openmanus/torch/shard"

// Step describes the training steps of a run. Every size is the largest that the run may reach.
type Step struct {
	Episodes int // episodes of a step
	Played   int // episodes that a rank plays
	Rows     int // episodes on which a rank trains
	Context  int // tokens of an episode
	Sampled  int // sampled tokens of an episode
	Sessions int // episodes that a rank plays at once

	MicroTokens int // tokens of a micro-batch
	Passes      int // passes of the update over the episodes
	Updates     int // optimiser steps

	Reference bool  // a frozen copy of the model scores the episodes
	Critic    bool  // a second model of the same shape is trained
	Old       bool  // the old log-probs need a pass
	KVTokens  int   // tokens of the KV cache
	KVFreed   bool  // the KV cache is freed during the update
	Other     int64 // memory of the program, its libraries and other models

	Ranks Ranks // that train the model
}

// Ranks describes how the ranks of a run share a model. The zero value is one rank.
type Ranks struct {
	Trainers       int         // ranks that train together; 0 and 1: one
	Workers        int         // ranks that only play
	Level          shard.Level // of the models in the update
	TensorParallel int         // ranks that hold a model together to generate; 0 and 1: each has a whole model
}

func (r Ranks) trainers() int { return max(1, r.Trainers) }

// Recompute reports whether backward passes recompute activations without gradient checkpointing.
func (r Ranks) Recompute() bool { return r.trainers() > 1 && r.Level == shard.Weights }

// Phase is the time of a part of a step.
type Phase struct {
	Name      string  `json:"name"`
	Tokens    int     `json:"tokens"` // tokens that the phase processes
	PerSecond float64 `json:"tokens_per_second"`
	Seconds   float64 `json:"seconds"`
}

// Time returns the time of a step on one rank by phase, without the time of environments, score functions and
// exchanges between ranks.
func (c *Costs) Time(s Step) []Phase {
	var phases []Phase
	add := func(name string, tokens int, perToken float64) {
		if tokens > 0 && perToken > 0 {
			phases = append(phases, Phase{name, tokens, 1 / perToken, float64(tokens) * perToken})
		}
	}
	m := &c.o.Config
	all := s.Rows * s.Context
	at := max(1, min(c.o.Rows, s.Sessions, s.Played))
	add("prompts and observations", s.Played*(s.Context-s.Sampled), c.prefill.of(m))
	add("sampling", s.Played*s.Sampled, c.decode.of(m)/float64(at))
	if s.Old {
		add("old log-probs", all, c.forward.of(m))
	}
	if s.Reference {
		add("reference", all, c.forward.of(m))
	}
	optimize := c.optimize * c.trained.of(m)
	if s.Ranks.Level >= shard.Optimizer {
		optimize /= float64(s.Ranks.trainers())
	}
	update := c.update.of(m) + optimize*float64(s.Updates)/float64(max(1, all*s.Passes))
	if s.Critic {
		add("values", all, c.forward.of(m))
		add("critic update", all*s.Passes, update)
	}
	add("policy update", all*s.Passes, update)
	return phases
}
