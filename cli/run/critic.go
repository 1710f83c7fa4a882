package run

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// criticSeed gives the critic's head other random numbers than the rest of the run.
const criticSeed = 0x637269746963

// critic returns the critic, loaded from the checkpoint if there is one, or nil if
// the algorithm has no critic. The critic shares the actor's decoder (critic.shared),
// loads the decoder of critic.path, or copies the actor's decoder. The trainer
// repeats the copy after a warm start.
func (t *training) critic(ctx context.Context) (*learner.Critic, error) {
	if !t.cfg.UsesCritic() || t.mode == supervised || !t.host.Ranks.Trains() {
		return nil, nil
	}
	c, err := t.newCritic(ctx)
	if err != nil {
		return nil, err
	}
	t.open.AddFunc(c.Close)
	if t.run.checkpoint != nil && t.run.state.WarmStarted {
		if err := c.Load(ctx, t.run.checkpoint.Path); err != nil {
			return nil, errext.With(errext.Disk, "", err)
		}
	}
	return c, nil
}

func (t *training) newCritic(ctx context.Context) (*learner.Critic, error) {
	if t.cfg.Critic.Shared {
		c, err := learner.NewSharedCritic(ctx, t.actor, adamW(t.cfg.Critic.Optim), t.cfg.Trainer.Seed^criticSeed)
		return c, errext.With(errext.Native, "", err)
	}
	path := t.cfg.Critic.Path
	if t.run.checkpoint != nil && t.run.state.WarmStarted {
		path = t.run.checkpoint.File(learner.CriticFolder)
	}
	var m *model.Model
	var err error
	if path == "" {
		base := t.bundle.Model.Base()
		defer base.Close()
		m, err = base.Deferred(torch.Float32)
		err = errext.With(errext.Native, "", err)
	} else {
		var b *model.Bundle
		if b, err = t.openMerged(ctx, path, torch.Float32); err == nil {
			m = b.Model
		}
	}
	if err != nil {
		return nil, fmt.Errorf("critic: %w", err)
	}
	if own, actor := m.Config.VocabSize, t.bundle.Model.Config.VocabSize; own != actor {
		m.Close()
		return nil, errext.With(errext.Model, "give a model with the actor's tokenizer", fmt.Errorf("critic.path: the vocabulary of the critic has %d tokens, the vocabulary of the actor %d", own, actor))
	}
	if err := t.load(ctx, m, false); err != nil {
		m.Close()
		return nil, err
	}
	c, err := learner.NewCritic(ctx, m, t.compute, adamW(t.cfg.Critic.Optim), t.cfg.Trainer.Seed^criticSeed)
	if err != nil {
		m.Close()
		return nil, errext.With(errext.Native, "", err)
	}
	c.SetGradientCheckpointing(t.cfg.Critic.GradientCheckpointing)
	c.OnBadStep(t.keepBadStep)
	return c, nil
}

// saveCritic returns a function that writes the critic's decoder with the
// actor's tokenizer, so that the folder opens as a model.
func (t *training) saveCritic(c *learner.Critic) func(ctx context.Context, dir string) error {
	return func(ctx context.Context, dir string) error {
		b := *t.bundle
		b.Model = c.Master()
		return b.Save(ctx, dir, torch.Float32)
	}
}
