package learner

// The critic of PPO: a decoder with a linear head of one output. The value of a token
// comes from the state before the token, like its log-prob: v_t = w · h_{t-1} + b (spec
// 7.4).
//
// Differs from verl in: the head is float32 in any compute type; the loss covers
// sampled tokens only, where verl's mask is one place to the left and includes
// observations (spec 5.1).

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

// Critic estimates the value of every sampled token: the expected return of the rest
// of the episode. It has a separate decoder, which is trained like an actor's, or shares
// the actor's decoder (sharedcritic.go).
type Critic struct {
	*Actor
	head      *valueHead
	headAdamW *optim.AdamW // optimiser of the head of a shared critic; nil: the decoder's optimiser trains the head
}

// NewCritic makes a critic of m, with a head of random weights, and takes ownership of
// m. The weights of m must be float32. The output layer of m is not used.
func NewCritic(ctx context.Context, m *model.Model, compute torch.DType, o optim.AdamWOptions, seed uint64) (*Critic, error) {
	head, err := newValueHead(ctx, m, seed)
	c := &Critic{head: head}
	if err == nil {
		if c.Actor, err = NewActor(ctx, m, compute, o, head.params()...); err != nil {
			head.owner.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make the critic: %w", err)
	}
	return c, nil
}

// Close frees the critic. It frees the critic's model unless the actor owns the model.
func (c *Critic) Close() {
	if c.Shared() {
		c.headAdamW.Close()
		c.sharedHead = nil
	} else {
		c.Actor.Close()
	}
	c.head.owner.Close()
}

// optimizer returns the optimiser of the head, which is also the optimiser of a separate
// decoder.
func (c *Critic) optimizer() *optim.AdamW {
	if c.Shared() {
		return c.headAdamW
	}
	return c.adamw
}

// Bytes returns the memory that the critic adds: for the weights and their shadow, and
// for the optimiser's two moments.
func (c *Critic) Bytes() (weights, optimizer float64) {
	if !c.Shared() {
		return c.Actor.Bytes()
	}
	head := c.head.bytes()
	return head, 2 * head
}

// OptimizerSteps returns the number of steps of the head's optimiser.
func (c *Critic) OptimizerSteps() int { return c.optimizer().Steps() }

// CopyFrom copies the weights of an actor to the decoder. The head does not change.
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

// hidden runs the decoder and returns the states [M,D] before the tokens in the loss.
// The states carry no gradient if the critic shares the actor's decoder.
func (c *Critic) hidden(s *torch.Scope, p *packed) (hidden torch.Tensor) {
	if !c.Shared() {
		return p.hidden(s, c.compute)
	}
	c.compute.SetDropout(nil, nil) // dropout is only used to train the decoder
	s.NoGrad(func() { hidden = p.hidden(s, c.compute) })
	return hidden
}

// Values writes the value of every sampled token to the rows' Values. It computes no
// gradients.
func (c *Critic) Values(ctx context.Context, rows []data.Row, micro MicroBatching) error {
	return forward(ctx, c.compute, rows, micro, func(s *torch.Scope, p *packed) {
		p.scatter(c.head.values(c.hidden(s, p)).ToFloat32s(), values)
	}, values)
}

// CriticOptions configure UpdateCritic.
type CriticOptions struct {
	MiniBatch int // number of episodes in an optimiser step; 0: all
	Passes    Passes
	Micro     MicroBatching
	Clip      float64 // bound on the change of a value during the update
	GradClip  float64
	AdamW     optim.AdamWOptions
	Schedule  optim.Schedule
	Warmup    int     // number of first steps that train only the critic
	Coef      float64 // coefficient of a shared critic's value loss in the actor's loss
	// FromActor copies the actor's weights to the critic before the first step. It has
	// no effect on a shared critic.
	FromActor bool
	Seed      uint64 // seed of the order of the passes
}

// CriticStats are means over the tokens or over the optimiser steps of an update.
type CriticStats struct {
	Loss, ClipFrac, Mean float64
	GradNorm             float64
	Steps, Skipped       int // number of optimiser steps that were done, and that were skipped as not finite
}

// UpdateCritic trains on rows with Values and Returns, one optimiser step for each
// mini-batch (verl's update_critic). If the critic is shared, it trains only the head.
func (c *Critic) UpdateCritic(ctx context.Context, rows []data.Row, lr float64, o CriticOptions) (st CriticStats, err error) {
	p, err := newPasses(rows, o.MiniBatch, o.Passes, o.Seed)
	if err != nil {
		return st, err
	}
	o.Micro = c.withDropout(o.Micro)
	total := 0
	err = c.update(p, &st.Steps, func(mini []data.Row) error {
		tokens, err := c.updateValues(ctx, mini, lr, o, &st)
		total += tokens
		return err
	})
	if err == nil && total > 0 {
		for _, v := range st.sums() {
			*v /= float64(total)
		}
		st.GradNorm /= float64(st.Steps)
	}
	return st, err
}

// updateValues does one optimiser step and adds the sums over its tokens to st.
func (c *Critic) updateValues(ctx context.Context, rows []data.Row, lr float64, o CriticOptions, st *CriticStats) (tokens int, err error) {
	if tokens = LossTokens(rows); tokens == 0 {
		return 0, nil
	}
	var mini CriticStats
	norms, skipped, err := c.optimize(ctx, rows, o.Micro, mini.sums(), func() error {
		return c.accumulateValue(ctx, rows, tokens, o, &mini)
	}, optim.Share{Of: c.optimizer(), LR: lr, MaxNorm: o.GradClip})
	switch {
	case err != nil:
		return 0, err
	case skipped:
		st.Skipped++
		return 0, nil
	}
	add(st.sums(), mini.sums())
	st.GradNorm += norms[0]
	st.Steps++
	return tokens, nil
}

// sums lists the statistics that an update sums over tokens.
func (st *CriticStats) sums() []*float64 { return []*float64{&st.Loss, &st.ClipFrac, &st.Mean} }

// add adds each of the values to the total at the same index.
func add(totals, values []*float64) {
	for i, t := range totals {
		*t += *values[i]
	}
}

// AddTo writes the metrics of an update with learning rate lr to m.
func (st CriticStats) AddTo(m map[string]float64, lr float64) {
	m[track.CriticLoss], m[track.CriticClipFrac], m[track.CriticPredMean] = st.Loss, st.ClipFrac, st.Mean
	m[track.CriticGradNorm], m[track.CriticLR], m[track.CriticSkipped] = st.GradNorm, lr, float64(st.Skipped)
}

// accumulateValue adds the gradient of a mini-batch to the weights' gradients, and the
// sums over its tokens to st.
func (c *Critic) accumulateValue(ctx context.Context, rows []data.Row, tokens int, o CriticOptions, st *CriticStats) error {
	return c.accumulate(ctx, rows, o.Micro, st.sums(), func(s *torch.Scope, p *packed) (torch.Tensor, error) {
		sum := c.head.loss(s, p, c.hidden(s, p), o.Clip, st)
		return sum.MulScalar(1 / float64(tokens)), nil
	})
}

// Files of a critic in a checkpoint folder. CriticFolder holds the head and, unless the
// critic shares the actor's decoder, the decoder as a Hugging Face folder.
const (
	CriticFolder        = "critic"
	headFile            = "value_head.safetensors"
	criticOptimizerFile = "critic_optimizer.safetensors"
	headWeight          = "value_head.weight"
	headBias            = "value_head.bias"
)

// Save writes the head and the optimiser of the critic to a checkpoint folder. All ranks call it if the decoder is
// sharded.
func (c *Critic) Save(ctx context.Context, dir string) error {
	o := c.master.Sharded()
	writes := o.Group == nil || o.Group.Rank() == 0
	if writes {
		if err := c.head.save(ctx, filepath.Join(dir, CriticFolder)); err != nil {
			return err
		}
	}
	if !writes && c.Shared() {
		return nil // the optimiser of a shared critic's head is not sharded
	}
	return c.optimizer().Save(ctx, filepath.Join(dir, criticOptimizerFile))
}

// Load restores the head and the optimiser from a checkpoint folder. It does not touch
// the decoder.
func (c *Critic) Load(ctx context.Context, dir string) error {
	if err := c.head.load(ctx, filepath.Join(dir, CriticFolder)); err != nil {
		return err
	}
	return c.optimizer().Load(ctx, filepath.Join(dir, criticOptimizerFile))
}
