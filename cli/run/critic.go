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

// hasCritic reports whether this rank has a critic.
func (t *training) hasCritic() bool {
	return t.cfg.UsesCritic() && t.mode != supervised && t.host.Ranks.Trains()
}

// copiesCritic reports whether the critic's decoder is a copy of the actor's, so that its loading is a collective if the actor's weights are
// sharded. It is the same on all ranks.
func (t *training) copiesCritic() bool { return !t.cfg.Critic.Shared && t.criticPath() == "" }

// criticPath returns the folder of the critic's decoder, or "" if it is a copy of the actor's decoder.
func (t *training) criticPath() string {
	if t.run.checkpoint != nil && t.run.state.WarmStarted {
		return t.run.checkpoint.File(learner.CriticFolder)
	}
	return t.cfg.Critic.Path
}

// critic returns the critic, loaded from the checkpoint if there is one, or nil if
// the algorithm has no critic. The critic is on the actor's decoder (critic.shared), or on m,
// which has been loaded.
func (t *training) critic(ctx context.Context, m *model.Model) (*learner.Critic, error) {
	if !t.hasCritic() {
		return nil, nil
	}
	c, err := t.newCritic(ctx, m)
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

// criticDecoder opens the critic's own decoder: that of critic.path, or a copy of the actor's, which the trainer repeats after a warm start.
// It returns nil if there is none.
func (t *training) criticDecoder(ctx context.Context) (*model.Model, error) {
	if !t.hasCritic() || t.cfg.Critic.Shared {
		return nil, nil
	}
	if t.copiesCritic() {
		base := t.bundle.Model.Base()
		t.open.AddFunc(base.Close)
		m, err := base.Deferred(torch.Float32)
		if err != nil {
			return nil, errext.With(errext.Native, "", fmt.Errorf("critic: %w", err))
		}
		return m, nil
	}
	b, err := t.openMerged(ctx, t.criticPath(), torch.Float32)
	if err != nil {
		return nil, fmt.Errorf("critic: %w", err)
	}
	if own, actor := b.Model.Config.VocabSize, t.bundle.Model.Config.VocabSize; own != actor {
		b.Close()
		return nil, errext.With(errext.Model, "give a model with the actor's tokenizer", fmt.Errorf("critic.path: the vocabulary of the critic has %d tokens, the vocabulary of the actor %d", own, actor))
	}
	return b.Model, nil
}

func (t *training) newCritic(ctx context.Context, m *model.Model) (*learner.Critic, error) {
	if t.cfg.Critic.Shared {
		c, err := learner.NewSharedCritic(ctx, t.actor, adamW(t.cfg.Critic.Optim), t.cfg.Trainer.Seed^criticSeed)
		return c, errext.With(errext.Native, "", err)
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
