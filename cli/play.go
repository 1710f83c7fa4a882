package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/model"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
)

// playing is what eval and rollout open: a model, an environment, tasks.
type playing struct {
	open   closers
	bundle *model.Bundle
	env    rollout.Env
	tasks  []data.Task
}

func (p *playing) close() error { return p.open.close() }

// openPlaying opens the environment and the tasks before the model. The caller
// closes it, also after an error.
func (s *State) openPlaying(ctx context.Context, o taskOptions) (*playing, error) {
	p := &playing{}
	w, err := s.openWorld(ctx, worldOptions{
		Name: o.Env, Servers: o.Servers, Recipes: o.Recipes, Vocabulary: o.Vocabulary,
		Parser: o.Parser, Actions: o.ActionFormat, Timeout: seconds(o.TimeoutS),
		Launch: o.Launch, Retries: configs.DefaultEnv(o.Env).Retries, WaitHealthy: seconds(o.WaitHealthyS),
	})
	if err != nil {
		return p, err
	}
	p.open.add(w.close)
	if p.tasks, err = s.loadTasks(ctx, w.spec, o.list()); err != nil {
		return p, err
	}
	format, err := agent.Formats.Lookup(o.Format)
	if err != nil {
		return p, errWith(ExitInput, "", err)
	}
	instruction, err := s.instruction(o.Instruction, o.InstructionFile)
	if err != nil {
		return p, err
	}
	dt, err := dtypeOf(o.Dtype)
	if err != nil {
		return p, err
	}
	thread, err := s.openThread(o.Device)
	if err != nil {
		return p, err
	}
	p.open.addFunc(thread.Close)
	if p.bundle, err = model.Open(ctx, thread, s.Path(o.Model), model.Options{DType: dt}); err != nil {
		return p, errWith(ExitModel, "", err)
	}
	p.open.addFunc(p.bundle.Close)
	maxContext := p.bundle.Model.Config.MaxPositionEmbeddings
	switch {
	case o.MaxContextTokens > maxContext:
		return p, errWith(ExitInput, fmt.Sprintf("set --max-context-tokens to %d or less", maxContext),
			fmt.Errorf("the model has %d positions", maxContext))
	case o.MaxContextTokens > 0:
		maxContext = o.MaxContextTokens
	}
	sampler, err := newSampler(ctx, p.bundle, p.bundle.Model, samplerOptions{
		Sequences: min(o.Concurrency, len(p.tasks)*o.Samples), MaxContext: maxContext,
		Deterministic: o.Deterministic, MemoryShare: 0.5, Shrink: shrinkFlags,
	})
	if err != nil {
		return p, err
	}
	p.open.addFunc(sampler.close)
	turns := o.MaxTurns
	if turns == 0 {
		turns = w.spec.MaxTurns
	}
	p.env = rollout.Env{Pool: w.pool, Setup: agent.Setup{
		Engine: sampler.sched, Renderer: sampler.renderer, Format: format, Spec: w.spec,
		Options: agent.Options{
			MaxTurns: turns, MaxNewTokens: o.MaxNewTokens, MaxContext: maxContext, MaxObsTokens: o.MaxObsTokens,
			Temperature: float32(o.Temperature), Greedy: o.Greedy, TopP: float32(o.TopP), TopK: max(o.TopK, 0),
			Instruction: instruction,
		},
	}}
	return p, nil
}

// play plays every task and shows how far it is.
func (s *State) play(ctx context.Context, p *playing, o taskOptions, exchanges bool, each func(*data.Episode) error) ([]*data.Episode, error) {
	bar := s.Progress("playing "+o.Env, len(p.tasks)*o.Samples)
	defer bar.Done()
	episodes, _, err := rollout.RunEpisodes(ctx, map[string]rollout.Env{o.Env: p.env}, p.tasks, rollout.Options{
		GroupSize: o.Samples, Concurrency: o.Concurrency, Seed: o.Seed, Deterministic: o.Deterministic,
		Exchanges: exchanges, OnEpisode: each, Log: s.Log,
		OnProgress: func(pr rollout.Progress) { bar.Set(pr.Done, fmt.Sprintf("%d solved", pr.Success)) },
	})
	return episodes, playError(err)
}

// playError says what to do about an error of a rollout where the error cannot
// know.
func playError(err error) error {
	var prompt *agent.PromptError
	if errors.As(err, &prompt) {
		return errWith(ExitInput, "raise --max-context-tokens as far as the model goes, or leave the task out with --skip-tasks", err)
	}
	return err
}
