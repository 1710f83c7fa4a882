package learner

// The critic of PPO: a decoder with a linear head of one output. The value of a
// token comes from the state before it, v_t = w · h_{t-1} + b, as its
// log-prob does (spec 7.4).
//
// Differs from verl in: the head is float32 whatever the decoder computes in,
// and the loss looks at sampled tokens alone; there a mask one place to the left
// let observations in (spec 5.1).

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// Critic estimates what an episode will still be paid. Its decoder is its own
// and trained as an actor's is, or the actor's (sharedcritic.go).
type Critic struct {
	*Actor
	head *valueHead
	own  *optim.AdamW // of the head alone, where the decoder is the actor's; nil: the decoder's trains it too
}

// NewCritic takes ownership of m, whose weights must be float32 and whose
// output layer is not used, and gives it a head of random weights.
func NewCritic(ctx context.Context, m *model.Model, compute torch.DType, o optim.AdamWOptions, seed uint64) (*Critic, error) {
	head, err := newValueHead(ctx, m.Thread(), m.Config.HiddenSize, seed)
	c := &Critic{head: head}
	if err == nil {
		if c.Actor, err = newActor(ctx, m, compute, o, head.params()); err != nil {
			head.owner.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make the critic: %w", err)
	}
	return c, nil
}

// Close frees the critic: with its model, unless that is the actor's.
func (c *Critic) Close() {
	if c.Shared() {
		c.own.Close()
		c.beside = nil
	} else {
		c.Actor.Close()
	}
	c.head.owner.Close()
}

// optimizer is that of what is the critic's own.
func (c *Critic) optimizer() *optim.AdamW {
	if c.Shared() {
		return c.own
	}
	return c.adamw
}

// bytes is what the critic adds to the memory: weights, with their shadow, and
// the optimiser's two moments.
func (c *Critic) Bytes() (weights, optimizer float64) {
	if !c.Shared() {
		return c.Actor.Bytes()
	}
	head := c.head.bytes()
	return head, 2 * head
}

// OptimizerSteps returns the number of optimiser steps of the critic's own
// optimiser.
func (c *Critic) OptimizerSteps() int { return c.optimizer().Steps() }

// CopyFrom makes the decoder's weights those of an actor. The head stays.
func (c *Critic) CopyFrom(ctx context.Context, a *Actor) error {
	err := torch.Run(ctx, c.master.Thread(), func(s *torch.Scope) error {
		c.master.CopyWeights(s, a.master)
		if c.compute != c.master {
			c.compute.CopyFrom(s, c.master)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("copy the actor's weights to the critic: %w", err)
	}
	return nil
}

// hidden runs the decoder. Where it is the actor's, a loss of values alone does
// not train it.
func (c *Critic) hidden(s *torch.Scope, p *packed) (hidden torch.Tensor) {
	if !c.Shared() {
		return p.hidden(s, c.compute)
	}
	c.compute.SetDropout(false, 0) // which belongs to the decoder's training
	s.NoGrad(func() { hidden = p.hidden(s, c.compute) })
	return hidden
}

// Values computes the value of every sampled token, without gradients.
func (c *Critic) Values(ctx context.Context, rows []data.Row, micro MicroBatching) error {
	return forward(ctx, c.compute, rows, micro, func(s *torch.Scope, p *packed) {
		p.scatter(c.head.values(c.hidden(s, p)).ToFloat32s(), func(r *data.Row) *[]float32 { return &r.Values })
	})
}

// CriticOptions configure UpdateCritic.
type CriticOptions struct {
	MiniBatch int // episodes in an optimiser step; 0: all
	Passes    Passes
	Micro     MicroBatching
	Clip      float64 // of the value around what it was before the update
	GradClip  float64
	AdamW     optim.AdamWOptions
	Schedule  optim.Schedule
	Warmup    int     // steps that train the critic alone
	Coef      float64 // of the value loss beside the policy loss, where the decoder is the actor's
	// FromActor makes the actor's weights before the first step the critic's,
	// instead of those that it came with. It says nothing of a shared decoder.
	FromActor bool
	Seed      uint64 // of the passes' order; the trainer's, step by step
}

// CriticStats are means over the tokens of an update, or its optimiser steps.
type CriticStats struct {
	Loss, ClipFrac, Mean float64
	GradNorm             float64
	Steps, Skipped       int // optimiser steps done, and left out since they were not finite
}

// UpdateCritic goes over the rows, which have Values and Returns, one optimiser
// step a mini-batch (verl's update_critic). Of a shared critic it trains the
// head alone.
func (c *Critic) UpdateCritic(ctx context.Context, rows []data.Row, lr float64, o CriticOptions) (st CriticStats, err error) {
	defer func() { c.inconsistent = c.inconsistent || err != nil && st.Steps > 0 }()
	p, err := newPasses(rows, o.MiniBatch, o.Passes, o.Seed)
	if err != nil {
		return st, err
	}
	total := 0
	for n := range p.Count() {
		minis, done := p.next(n)
		for _, mini := range minis {
			tokens, err := c.updateValues(ctx, mini, lr, o, &st)
			if err != nil {
				return st, err
			}
			total += tokens
		}
		done()
	}
	if total > 0 {
		for _, v := range []*float64{&st.Loss, &st.ClipFrac, &st.Mean} {
			*v /= float64(total)
		}
		st.GradNorm /= float64(st.Steps)
	}
	return st, nil
}

// updateValues does one optimiser step and adds sums over its tokens to st.
func (c *Critic) updateValues(ctx context.Context, rows []data.Row, lr float64, o CriticOptions, st *CriticStats) (tokens int, err error) {
	if tokens = LossTokens(rows); tokens == 0 {
		return 0, nil
	}
	before, norms := *st, []float64(nil)
	if err = c.accumulateValue(ctx, rows, tokens, o, st); err == nil {
		norms, err = c.stepAll(ctx, optim.Share{Of: c.optimizer(), LR: lr, MaxNorm: o.GradClip})
	}
	left, err := c.leaveOutOf(c.optimizer(), rows, lr, err)
	switch {
	case err != nil:
		return 0, err
	case left:
		*st = before
		st.Skipped++
		return 0, nil
	}
	st.GradNorm += norms[0]
	st.Steps++
	return tokens, nil
}

// AddTo writes the metrics of an update with learning rate lr to m.
func (st CriticStats) AddTo(m map[string]float64, lr float64) {
	m[track.CriticLoss], m[track.CriticClipFrac], m[track.CriticPredMean] = st.Loss, st.ClipFrac, st.Mean
	m[track.CriticGradNorm], m[track.CriticLR], m[track.CriticSkipped] = st.GradNorm, lr, float64(st.Skipped)
}

// accumulateValue leaves the gradient of a mini-batch on the weights and adds
// sums over its tokens to st.
func (c *Critic) accumulateValue(ctx context.Context, rows []data.Row, tokens int, o CriticOptions, st *CriticStats) error {
	batches, err := o.Micro.Split(rows)
	if err != nil {
		return err
	}
	for _, b := range batches {
		p := pack(b)
		if len(p.at) == 0 {
			continue
		}
		err := c.backward(ctx, func(s *torch.Scope) (torch.Tensor, error) {
			sum := c.head.loss(s, p, c.hidden(s, p), o.Clip, st)
			return sum.MulScalar(1 / float64(tokens)), nil
		})
		if err != nil {
			return err
		}
		countRows(ctx, b)
	}
	return nil
}

// Files of a checkpoint that a critic adds: its decoder as a Hugging Face
// folder, unless it is the actor's; the head; the optimiser of what is its own.
const (
	CriticFolder        = "critic"
	headFile            = "value_head.safetensors"
	criticOptimizerFile = "critic_optimizer.safetensors"
	headWeight          = "value_head.weight"
	headBias            = "value_head.bias"
)

// Save writes the head and the optimiser of the critic to a checkpoint folder.
func (c *Critic) Save(ctx context.Context, dir string) error {
	if err := c.head.save(ctx, filepath.Join(dir, CriticFolder)); err != nil {
		return err
	}
	return c.optimizer().Save(ctx, filepath.Join(dir, criticOptimizerFile))
}

// Load restores what Save wrote. It does not touch the decoder.
func (c *Critic) Load(ctx context.Context, dir string) error {
	if err := c.head.load(ctx, filepath.Join(dir, CriticFolder)); err != nil {
		return err
	}
	return c.optimizer().Load(ctx, filepath.Join(dir, criticOptimizerFile))
}
