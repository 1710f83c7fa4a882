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
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/errext"
)

// playing is what eval and rollout open: an environment, tasks, and who plays
// them.
type playing struct {
	open     closers
	world    *world
	bundle   *model.Bundle  // nil: the endpoint plays
	endpoint *openai.Client // nil: the model plays
	env      rollout.Env
	tasks    []data.Task
	day      time.Time // that the chat template is told
}

func (p *playing) close() error { return p.open.close() }

// openPlaying opens the environment and the tasks before the model, which must
// be there before a server is started. The caller closes it, also after an
// error.
func (s *State) openPlaying(ctx context.Context, o taskOptions) (*playing, error) {
	p := &playing{}
	if o.Endpoint == nil {
		if err := s.modelIsThere("--model", o.Model); err != nil {
			return p, err
		}
	}
	w, err := s.openWorld(ctx, o.world())
	if err != nil {
		return p, err
	}
	p.world = w
	p.open.add(w.close)
	if p.tasks, err = s.loadTasks(ctx, w.spec, o.list()); err != nil {
		return p, err
	}
	format, err := s.openFormat(ctx, &p.open, w.spec, o.format())
	if err != nil {
		return p, err
	}
	instruction, err := s.instruction(o.Instruction, o.InstructionFile)
	if err != nil {
		return p, err
	}
	turns := o.MaxTurns
	if turns == 0 {
		turns = w.spec.MaxTurns
	}
	p.env = rollout.Env{Pool: w.pool, MaxLeases: w.pool.MaxLeases(), Setup: agent.Setup{
		Format: format, Spec: w.spec,
		Options: agent.Options{
			MaxTurns: turns, MaxNewTokens: o.MaxNewTokens, MaxContext: o.MaxContextTokens, MaxObsTokens: o.MaxObsTokens, ParseLimit: o.MaxParseFailures,
			Temperature: float32(o.Temperature), Greedy: o.Greedy, TopP: float32(o.TopP), TopK: max(o.TopK, 0),
			Instruction: instruction, FinalEnds: o.FinalEnds,
		},
	}}
	if o.Endpoint != nil {
		return p, s.openEndpoint(ctx, p, o)
	}
	return p, s.openLocal(ctx, p, o)
}

// world says how the environment is reached.
func (o taskOptions) world() worldOptions {
	u := o.Unflagged
	w := worldOptions{
		Name: o.Env, Servers: o.Servers, Launch: o.Launch, Recipes: o.Recipes, Vocabulary: o.Vocabulary,
		Parser: o.Parser, Actions: o.ActionFormat, Timeout: seconds(o.TimeoutS), Timeouts: u.Timeouts, Retries: u.Retries,
		MaxInstances: u.MaxInstances, MaxRequests: u.MaxRequests, QuarantineAfter: u.QuarantineAfter,
		WaitHealthy: seconds(o.WaitHealthyS),
	}
	if w.Launch != nil && u.Command != nil { // whose words may have spaces
		launch := *w.Launch
		launch.Command, w.Launch = u.Command, &launch
	}
	return w
}

// openLocal loads the model and completes p with an engine on it.
func (s *State) openLocal(ctx context.Context, p *playing, o taskOptions) error {
	dt, err := dtypeOf(o.Dtype)
	if err != nil {
		return err
	}
	thread, err := s.openThread(o.Device)
	if err != nil {
		return err
	}
	p.open.addFunc(thread.Close)
	if p.bundle, err = model.Open(ctx, thread, s.modelPath(o.Model), model.Options{DType: dt}); err != nil {
		return errext.With(errext.Model, "", err)
	}
	p.open.addFunc(p.bundle.Close)
	maxContext := p.bundle.Model.Config.MaxPositionEmbeddings
	switch {
	case o.MaxContextTokens > maxContext:
		return errext.With(errext.Input, fmt.Sprintf("set --max-context-tokens to %d or less", maxContext),
			fmt.Errorf("the model has %d positions", maxContext))
	case o.MaxContextTokens > 0:
		maxContext = o.MaxContextTokens
	}
	p.day = s.dayFrom(o.Day)
	sampler, err := newSampler(ctx, p.bundle, p.bundle.Model, samplerOptions{
		Sequences: min(o.Concurrency, len(p.tasks)*o.Samples), MaxContext: maxContext,
		Deterministic: o.Deterministic, MemoryShare: 0.5, Shrink: shrinkFlags, Day: p.day,
	})
	if err != nil {
		return err
	}
	p.open.addFunc(sampler.close)
	p.env.Setup.Engine, p.env.Setup.Renderer = sampler.sched, sampler.renderer
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
func (s *State) play(ctx context.Context, p *playing, o taskOptions, more func(*rollout.Options)) ([]*data.Episode, eval.Infrastructure, error) {
	total := len(p.tasks) * o.Samples
	bar := s.Progress("playing "+o.Env, total)
	defer bar.Done()
	ro := rollout.Options{
		GroupSize: o.Samples, Concurrency: o.Concurrency, Seed: o.Seed, Deterministic: o.Deterministic, Log: s.Log,
		Attempts: o.Unflagged.Attempts, Replays: o.Unflagged.Replays,
		OnProgress: func(pr rollout.Progress) {
			bar.Set(total-pr.Total+pr.Done, fmt.Sprintf("%d solved", pr.Success)) // those skipped are done
		},
	}
	if more != nil {
		more(&ro)
	}
	episodes, stats, err := rollout.RunEpisodes(ctx, map[string]rollout.Env{o.Env: p.env}, p.tasks, ro)
	if p.endpoint != nil {
		u := p.endpoint.Usage()
		s.Log.Info("asked the endpoint", "requests", u.Requests, "retries", u.Retries, "prompt_tokens", u.PromptTokens, "completion_tokens", u.CompletionTokens)
	}
	met := eval.Infrastructure{Retries: stats.Retries, Replays: stats.Replays, Servers: p.world.pool.Counts(), MixedStarts: stats.MixedStarts, BadTasks: stats.BadTasks}
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
