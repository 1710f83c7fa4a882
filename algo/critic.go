package algo

// The critic of PPO: a decoder of its own with a linear head of one output. The
// value of a token comes from the state before it, v_t = w · h_{t-1} + b, as its
// log-prob does (spec 7.4).
//
// Differs from verl in: the head is float32 whatever the decoder computes in,
// and the loss looks at sampled tokens alone; there a mask one place to the left
// let observations in (spec 5.1).

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/agent/model"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
	"github.com/openmanus/openmanus/torch/optim"
)

// Critic estimates what an episode will still be paid. Its decoder is trained
// as an actor's is.
type Critic struct {
	*Actor
	head  nn.Linear
	owner *torch.Owner // of the head
}

// headScale is the standard deviation of a new head's weights.
const headScale = 0.02

// NewCritic takes ownership of m, whose weights must be float32 and whose
// output layer is not used, and gives it a head of random weights.
func NewCritic(ctx context.Context, m *model.Model, compute torch.DType, o optim.AdamWOptions, seed uint64) (*Critic, error) {
	c := &Critic{owner: torch.NewOwner(m.Thread(), "critic head")}
	err := torch.Run(ctx, m.Thread(), func(s *torch.Scope) error {
		c.head.Weight = s.RandN(seed, 1, m.Config.HiddenSize).MulScalar(headScale)
		c.head.Bias = s.Zeros(torch.Float32, 1)
		for _, w := range []torch.Tensor{c.head.Weight, c.head.Bias} {
			c.owner.Own(w)
			w.SetRequiresGrad(true)
		}
		return nil
	})
	if err == nil {
		extra := []optim.Param{{Name: headWeight, Tensor: c.head.Weight}, {Name: headBias, Tensor: c.head.Bias}}
		c.Actor, err = newActor(ctx, m, compute, o, extra)
	}
	if err != nil {
		c.owner.Close()
		return nil, fmt.Errorf("make the critic: %w", err)
	}
	return c, nil
}

// Close frees the critic with its model.
func (c *Critic) Close() {
	c.Actor.Close()
	c.owner.Close()
}

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

// values are those of the tokens in the loss [M].
func (c *Critic) values(s *torch.Scope, p *packed) torch.Tensor {
	return c.head.Forward(p.hidden(s, c.compute).To(torch.Float32)).Reshape(len(p.at))
}

// Values computes the value of every sampled token, without gradients.
func (c *Critic) Values(ctx context.Context, rows []data.Row, micro MicroBatching) error {
	batches, err := micro.Split(rows)
	if err != nil {
		return err
	}
	for _, b := range batches {
		p := pack(b)
		err := torch.Run(ctx, c.master.Thread(), func(s *torch.Scope) error {
			s.NoGrad(func() {
				p.scatter(c.values(s, p).ToFloat32s(), func(r *data.Row) *[]float32 { return &r.Values })
			})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
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
	Warmup    int // steps that train the critic alone
	// FromActor makes the actor's weights before the first step the critic's,
	// instead of those that it came with.
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
// step a mini-batch (verl's update_critic).
func (c *Critic) UpdateCritic(ctx context.Context, rows []data.Row, lr float64, o CriticOptions) (st CriticStats, err error) {
	defer func() { c.torn = c.torn || err != nil && st.Steps > 0 }()
	p, err := newPasses(rows, o.MiniBatch, o.Passes, o.Seed)
	if err != nil {
		return st, err
	}
	total := 0
	for n := range p.epochs() {
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
	if tokens = maskedTokens(rows); tokens == 0 {
		return 0, nil
	}
	before, norm := *st, 0.0
	if err = c.accumulateValue(ctx, rows, tokens, o, st); err == nil {
		norm, err = c.step(ctx, lr, o.GradClip)
	}
	left, err := c.leaveOut(rows, lr, err)
	switch {
	case err != nil:
		return 0, err
	case left:
		*st = before
		st.Skipped++
		return 0, nil
	}
	st.GradNorm += norm
	st.Steps++
	return tokens, nil
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
			v := c.values(s, p)
			old := p.gather(s, func(r *data.Row) []float32 { return r.Values })
			l, held := loss.Value(v, old, p.gather(s, func(r *data.Row) []float32 { return r.Returns }), o.Clip)
			sum := l.Sum()
			st.Loss += sum.Item()
			st.ClipFrac += held
			st.Mean += v.Detach().Sum().Item()
			return sum.MulScalar(1 / float64(tokens)), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
