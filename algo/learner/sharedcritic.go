package learner

// A critic that shares the policy's decoder: a linear head in addition to the output
// layer, and one forward pass for policy and critic,
//
//	loss = policy loss + vf_coef · mean ½ max((v - R)², (v̂ - R)²)
//
// with the mean over the tokens of the mini-batch. The head has a separate optimiser,
// learning rate and gradient norm. In the critic's warm-up only the head is trained.
//
// Source: Schulman et al. 2017 (arXiv:1707.06347), eq. 9, for networks that
// share parameters; vf_coef is TRL's name and default. verl has no shared critic.
//
// Differs from eq. 9 in: the decoder's gradient is clipped without the head's, so that
// vf_coef = 0 gives, to the last bit, the policy update without a critic.

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// NewSharedCritic makes a critic with a head of random weights on an actor's decoder. The
// critic does not own the actor; close the critic first. The value loss also trains the actor's adapters.
func NewSharedCritic(ctx context.Context, a *Actor, o optim.AdamWOptions, seed uint64) (*Critic, error) {
	fail := func(err error) error { return fmt.Errorf("put a critic on the actor: %w", err) }
	if len(a.sharedHead) > 0 {
		return nil, fail(errors.New("the actor already has a critic"))
	}
	head, err := newValueHead(ctx, a.master, seed)
	if err != nil {
		return nil, fail(err)
	}
	c := &Critic{Actor: a, head: head}
	err = torch.Run(ctx, a.master.Thread(), func(*torch.Scope) error {
		c.headAdamW = optim.NewAdamW(a.master.Thread(), head.params(), o)
		return nil
	})
	if err != nil {
		head.owner.Close()
		return nil, fail(err)
	}
	a.sharedHead = head.params()
	return c, nil
}

// Shared reports whether the critic is on an actor's decoder.
func (c *Critic) Shared() bool { return c.headAdamW != nil }

// ValueTerm adds the value loss of a shared critic to the policy loss.
type ValueTerm struct {
	Critic       *Critic
	Coef         float64 // coefficient of the value loss
	Clip         float64 // bound on the change of a value during the update
	LR, GradClip float64 // learning rate and gradient clip of the head
}

// ValuesAndLogProbs computes Values and OldLogProbs of the rows in one pass, without
// gradients.
func (c *Critic) ValuesAndLogProbs(ctx context.Context, rows []data.Row, micro MicroBatching, temperature float64) error {
	return forward(ctx, c.compute, rows, micro, func(s *torch.Scope, p *packed) {
		hidden := p.hidden(s, c.compute)
		logp, _ := p.logProbs(c.compute, hidden, temperature, false)
		p.scatter(logp.ToFloat32s(), OldLogProbs)
		p.scatter(c.head.values(hidden).ToFloat32s(), values)
	}, OldLogProbs, values)
}
