package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
)

// openModel opens or initialises the model. loadWeights loads its weights.
func (t *training) openModel(ctx context.Context) error {
	cfg := t.cfg
	var err error
	if cfg.Model.Fresh.Layers > 0 && t.run.checkpoint == nil {
		t.bundle, err = FreshModel(ctx, t.thread, cfg.Model.Fresh, cfg.Rollout.MaxContextTokens, cfg.Trainer.Seed, slices.Concat(t.walks, t.experts))
	} else {
		t.bundle, err = t.openWeights(ctx)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(t.replaceTokenizer(), setTemplate(t.host, t.bundle, cfg.Model)); err != nil {
		t.bundle.Close()
		return err
	}
	t.open.AddFunc(func() {
		if t.actor == nil { // which closes the model
			t.bundle.Close()
		}
	})
	return nil
}

// loadWeights loads the weights of the model, which are those of rank 0 on all ranks, and shards them on the ranks that train. If a rank
// cannot read its weights, all ranks return its error. The exchange of weights uses the group of the ranks, so it runs outside Ranks.Each.
func (t *training) loadWeights(ctx context.Context) error {
	err := t.sendWeights(ctx, t.bundle.Model)
	switch {
	case err != nil:
	case t.host.Ranks.Trains():
		err = t.load(ctx, t.bundle.Model, false)
	default:
		err = t.loadFollower(ctx)
	}
	if is[*torch.Error](err) || is[*dist.Error](err) { // other ranks may be inside a collective
		return err
	}
	return t.host.Ranks.Each(ctx, func() error { return err })
}

// openActor makes the actor of the model, and loads the optimiser state of a checkpoint.
func (t *training) openActor(ctx context.Context) (err error) {
	cfg := t.cfg
	if !t.host.Ranks.Trains() {
		t.actor = learner.NewFollower(t.bundle.Model)
		t.open.AddFunc(t.actor.Close)
		return nil
	}
	optimizer := adamW(cfg.Actor.Optim)
	if t.mode == supervised || t.run.inWarmStart() {
		optimizer = adamW(cfg.SFT.Optim)
	}
	if t.actor, err = learner.NewActor(ctx, t.bundle.Model, t.compute, optimizer); err != nil {
		return errext.With(errext.Native, "", err)
	}
	t.open.AddFunc(t.actor.Close)
	t.actor.SetGradientCheckpointing(cfg.Model.GradientCheckpointing)
	t.actor.SetDropoutSeed(cfg.Trainer.Seed)
	t.actor.OnBadStep(t.keepBadStep)
	if t.run.checkpoint != nil {
		if err := t.actor.LoadOptimizer(ctx, t.run.checkpoint.Path); err != nil {
			return errext.With(errext.Disk, "", err)
		}
	}
	return nil
}

// keepBadStep writes a skipped optimiser step to the run folder.
func (t *training) keepBadStep(b learner.BadStep) error {
	if !t.host.Ranks.First() { // rank 0 has the same rows
		return nil
	}
	return b.Write(t.run.BadSteps())
}

// replaceTokenizer installs the tokenizer of model.tokenizer_path.
func (t *training) replaceTokenizer() error {
	if t.cfg.Model.TokenizerPath == "" {
		return nil
	}
	dir := ModelPath(t.host, t.cfg.Model.TokenizerPath)
	tok, err := tokenizer.Load(dir)
	if n := t.bundle.Model.Config.VocabSize; err == nil && tok.Size() > n {
		err = fmt.Errorf("the tokenizer has %d tokens, but the model has only %d", tok.Size(), n)
	}
	if err == nil {
		t.bundle.Tokenizer = tok
		t.bundle.TokenizerConfig, err = tokenizer.LoadConfig(dir)
	}
	if err != nil {
		return errext.With(errext.Model, "", fmt.Errorf("model.tokenizer_path: %w", err))
	}
	return nil
}
