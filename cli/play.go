package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/openai"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/errext"
)

// playing is what eval and rollout open: an environment, tasks, and who plays
// them.
type playing struct {
	open     run.Closers
	world    *run.World
	bundle   *model.Bundle  // nil: the endpoint plays
	endpoint *openai.Client // nil: the model plays
	env      rollout.Env
	tasks    []data.Task
	day      time.Time // that the chat template is told
}

func (p *playing) close() error { return p.open.Close() }

// openPlaying opens the environment, the tasks, and then the model or the
// endpoint. The files of a model must exist before a server is started. The
// caller closes the result, also after an error.
func (s *State) openPlaying(ctx context.Context, o playOptions) (*playing, error) {
	p := &playing{}
	if o.local() {
		if err := run.CheckModel(&s.Host, "--model", o.Model.Path); err != nil {
			return p, err
		}
	}
	e := *o.env()
	w, err := run.OpenWorld(ctx, &s.Host, e, run.WorldOptions{Logs: o.Logs})
	if err != nil {
		return p, err
	}
	p.world = w
	p.open.Add(w.Close)
	if p.tasks, err = run.LoadTasks(ctx, &s.Host, w.Spec, run.TaskList{Key: "--tasks", Entries: e.ValTasks, SkipKey: "--skip-tasks", Skip: e.SkipTasks}); err != nil {
		return p, err
	}
	format, err := run.OpenFormat(ctx, &s.Host, &p.open, w.Spec, o.Config, e)
	if err != nil {
		return p, err
	}
	instruction, err := run.ReadInstruction(&s.Host, e.Instruction, e.InstructionFile)
	if err != nil {
		return p, err
	}
	temperature, greedy := sampledAt(o.Config)
	p.env = rollout.Env{Pool: w.Pool, MaxLeases: w.Pool.MaxLeases(), Setup: agent.Setup{
		Format: format, Spec: w.Spec,
		Options: agent.Options{
			MaxTurns: e.MaxTurns, MaxNewTokens: o.Rollout.MaxNewTokens, MaxContext: o.Rollout.MaxContextTokens,
			MaxObsTokens: o.Agent.MaxObsTokens, ParseLimit: o.Agent.MaxParseFailures,
			Temperature: float32(temperature), Greedy: greedy, TopP: float32(o.Rollout.TopP), TopK: max(o.Rollout.TopK, 0),
			Instruction: instruction, FinalEnds: e.FinalEnds,
		},
	}}
	if !o.local() {
		return p, s.openEndpoint(ctx, p, o)
	}
	return p, s.openLocal(ctx, p, o)
}

// sampledAt returns the temperature of rollout.val and whether it means greedy.
// Greedy episodes record temperature 1.
func sampledAt(cfg configs.Config) (temperature float64, greedy bool) {
	if t := cfg.Rollout.Val.Temperature; t != 0 {
		return t, false
	}
	return 1, true
}

// openLocal loads the model and completes p with an engine on it.
func (s *State) openLocal(ctx context.Context, p *playing, o playOptions) (err error) {
	if p.bundle, err = run.OpenModel(ctx, &s.Host, &p.open, o.Model, model.Options{}); err != nil {
		return err
	}
	maxContext, err := run.ContextLimit(p.bundle, o.Config)
	if err != nil {
		return err
	}
	p.day = run.PromptDay(&s.Host, o.Day)
	sampler, err := run.NewSampler(ctx, p.bundle, p.bundle.Model, run.SamplerOptions{
		Sequences: min(o.concurrency(), len(p.tasks)*o.samples()), MaxContext: maxContext,
		Deterministic: o.Rollout.Deterministic, MemoryShare: 0.5, Hints: run.CacheFlags, Day: p.day,
	})
	if err != nil {
		return err
	}
	p.open.AddFunc(sampler.Close)
	p.env.Setup.Engine, p.env.Setup.Renderer = sampler.Scheduler, sampler.Renderer
	p.env.Setup.Options.MaxContext = maxContext
	return nil
}

// weights is the hash of the model that plays, "" for an endpoint's: nobody
// says what it is.
func (p *playing) weights(ctx context.Context) (string, error) {
	if p.bundle == nil {
		return "", nil
	}
	hash, err := p.bundle.Model.Hash(ctx)
	return hash, errext.With(errext.Native, "", err)
}

// play plays every task and shows how far it is. It also tells what the
// servers did on the way. more, if it is not nil, completes the options of the
// rollout.
func (s *State) play(ctx context.Context, p *playing, o playOptions, more func(*rollout.Options)) ([]*data.Episode, eval.Infrastructure, error) {
	total := len(p.tasks) * o.samples()
	bar := s.Progress("playing "+o.env().Name, total)
	defer bar.Done()
	ro := rollout.Options{
		GroupSize: o.samples(), Concurrency: o.concurrency(), Seed: o.Trainer.Seed, Deterministic: o.Rollout.Deterministic, Log: s.Log,
		Attempts: o.Agent.EpisodeRetries + 1, Replays: o.Agent.EpisodeReplays,
		OnProgress: func(pr rollout.Progress) {
			bar.Set(total-pr.Total+pr.Done, fmt.Sprintf("%d solved", pr.Success)) // those skipped are done
		},
	}
	if more != nil {
		more(&ro)
	}
	episodes, stats, err := rollout.RunEpisodes(ctx, map[string]rollout.Env{o.env().Name: p.env}, p.tasks, ro)
	if p.endpoint != nil {
		u := p.endpoint.Usage()
		s.Log.Info("asked the endpoint", "requests", u.Requests, "retries", u.Retries, "prompt_tokens", u.PromptTokens, "completion_tokens", u.CompletionTokens)
	}
	met := eval.Infrastructure{Retries: stats.Retries, Replays: stats.Replays, Servers: p.world.Pool.Counts(), MixedStarts: stats.MixedStarts, BadTasks: stats.BadTasks}
	return episodes, met, p.playError(err)
}

// playError says what to do about an error of a rollout where the error cannot
// know.
func (p *playing) playError(err error) error {
	var prompt *agent.PromptError
	if errors.As(err, &prompt) {
		return errext.With(errext.Input, "raise --max-context-tokens as far as the model goes, or leave the task out with --skip-tasks", err)
	}
	var failed *rollout.FailedError
	if p.endpoint != nil && errors.As(err, &failed) && failed.Outcome == data.EngineError {
		return errext.With(errext.Env, "", err) // the engine is a server here, and not the native library
	}
	return err
}
