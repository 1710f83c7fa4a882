package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/openai"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/agent/text"
	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// PlayOptions are the options that Eval and Rollout share. The configuration
// selects the episodes: the val_tasks of its only [[env]] table, with the sampling
// settings rollout.val, rollout.top_p and rollout.top_k.
type PlayOptions struct {
	ServerLogs string  // folder of the logs of started servers
	MaxLost    float64 // share of the episodes that may be lost to failures of servers or the engine

	person bool // a person writes all replies: no model or endpoint is opened
}

// player is an open environment with its tasks, and the model or the endpoint
// that generates the replies. If several processes hold the model, those other than
// rank 0 have only their part of it.
type player struct {
	host     *Host
	cfg      configs.Config
	open     Closers
	world    *World
	bundle   *model.Bundle  // nil: the endpoint generates the replies
	sampler  *Sampler       // nil: the endpoint generates the replies
	endpoint *openai.Client // nil: the model generates the replies
	env      rollout.Env
	tasks    []data.Task
	day      time.Time // date for chat templates that write it into prompts
}

func (p *player) close() error { return p.open.Close() }

// samples is the number of episodes per task.
func (p *player) samples() int { return p.cfg.Rollout.Val.GroupSize }

// total is the number of episodes.
func (p *player) total() int { return len(p.tasks) * p.samples() }

// concurrency is the number of episodes played at once.
func (p *player) concurrency() int { return min(p.cfg.Agent.MaxWorkers, p.cfg.Rollout.MaxSequences) }

// openPlayer opens the environment, the tasks, and then the model or the
// endpoint. The files of a model must exist before a server is started. The
// parameter day is the date in prompts; "" is today. The caller closes the result, also after an
// error.
func (r *Run) openPlayer(ctx context.Context, o PlayOptions, day string) (*player, error) {
	h, cfg := &r.host, r.cfg
	p := &player{host: h, cfg: cfg, day: PromptDay(h, day)}
	if len(cfg.Env) != 1 {
		return p, errext.With(errext.Input, "keep one [[env]] table", fmt.Errorf("%d environments are configured, and one is played", len(cfg.Env)))
	}
	local := cfg.Rollout.Engine == "local"
	if local && !o.person {
		err := onEachMachine(ctx, h, func() error { return CheckModel(ctx, h, h.name("model.path"), cfg.Model.Path) })
		if err != nil {
			return p, err
		}
	}
	if !local && h.Ranks.Size() > 1 {
		return p, errext.With(errext.Usage, "remove --processes", fmt.Errorf("rollout.engine = %q: %d processes cannot hold the model of an endpoint", cfg.Rollout.Engine, h.Ranks.Size()))
	}
	if err := h.Ranks.OnFirst(ctx, func() error { return r.openPlay(ctx, p, o) }); err != nil {
		return p, err
	}
	switch {
	case o.person:
		return p, nil
	case local:
		return p, p.openLocal(ctx)
	}
	return p, p.openEndpoint(ctx)
}

// openPlay opens the environment and the tasks of p.
func (r *Run) openPlay(ctx context.Context, p *player, o PlayOptions) error {
	alone := *p.host
	alone.Ranks = nil // the other ranks do not play, and use no servers
	h, cfg, e := &alone, p.cfg, p.cfg.Env[0]
	w, setup, err := openSetup(ctx, h, &p.open, cfg, e, WorldOptions{Logs: o.ServerLogs})
	if err != nil {
		return err
	}
	p.world = w
	list := TaskList{Key: h.name("env.0.val_tasks"), Entries: e.ValTasks, SkipKey: h.name("env.0.skip_tasks"), Skip: e.SkipTasks}
	list.ofPrompts(e)
	if p.tasks, err = LoadTasks(ctx, h, w.Spec, list); err != nil {
		return err
	}
	if len(p.tasks) == 0 {
		return errext.With(errext.Input, "", fmt.Errorf("%s: no tasks to play", list.Key))
	}
	options := &setup.Options
	// The limits of prompts and replies in training do not apply.
	options.MaxPrompt, options.Truncation, options.FilterOverlong, options.IgnoreEOS = 0, "", false, false
	temperature, greedy := sampledAt(cfg)
	options.Temperature, options.Greedy = float32(temperature), greedy
	p.env = rollout.Env{Pool: w.Pool, Setup: setup}
	return nil
}

// sampledAt returns the temperature of rollout.val, and whether sampling is greedy,
// which temperature 0 selects. Greedy episodes record temperature 1.
func sampledAt(cfg configs.Config) (temperature float64, greedy bool) {
	if t := cfg.Rollout.Val.Temperature; t != 0 {
		return t, false
	}
	return 1, true
}

// openLocal loads the model and completes p with an engine on it. All ranks call it.
func (p *player) openLocal(ctx context.Context) error {
	episodes, err := ranks.Share(ctx, p.host.Ranks, func() (int, error) { return p.total(), nil })
	if err != nil {
		return err
	}
	b, sampler, err := openLocal(ctx, p.host, &p.open, p.cfg, SamplerOptions{
		Sequences: min(p.concurrency(), episodes), Deterministic: p.cfg.Rollout.Deterministic, Day: p.day,
	})
	if err != nil {
		return err
	}
	p.bundle, p.sampler = b, sampler
	if !p.host.Ranks.First() {
		return nil
	}
	p.env.Setup.Engine, p.env.Setup.Renderer = sampler.Scheduler, sampler.Renderer
	p.env.Setup.Options.MaxContext = sampler.MaxContext
	return nil
}

// openEndpoint connects to the endpoint of [rollout.api] and completes p with
// an engine over it. A request checks that the endpoint can be used.
func (p *player) openEndpoint(ctx context.Context) (err error) {
	api, options := p.cfg.Rollout.API, p.env.Setup.Options
	p.endpoint, err = openClient(ctx, p.host, &p.open, api.KeyEnv, openai.Options{
		BaseURL: api.BaseURL, Model: api.Model, Concurrency: cmp.Or(api.Concurrency, p.concurrency()),
		Timeout: Seconds(api.TimeoutS), Attempts: api.Retries + 1,
	}, openai.RequestOf(engine.Params{Temperature: options.Temperature, Greedy: options.Greedy, TopP: options.TopP, TopK: options.TopK}))
	if err != nil {
		return err
	}
	p.env.Setup.Engine = &text.Engine{Speaker: &openai.Speaker{Client: p.endpoint, MaxContext: p.cfg.Rollout.MaxContextTokens}}
	p.env.Setup.Renderer = text.Renderer{}
	p.env.Setup.NoIDs = true
	// The Speaker limits tokens. Options.MaxContext would count bytes here, so this option sets no limit.
	p.env.Setup.Options.MaxContext = math.MaxInt32
	return nil
}

// weights returns the hash of the model, or "" for an endpoint.
func (p *player) weights(ctx context.Context) (string, error) {
	if p.bundle == nil {
		return "", nil
	}
	hash := ""
	err := p.host.during("hashing the weights", func() (err error) {
		hash, err = p.bundle.Model.Hash(ctx)
		return err
	})
	return hash, errext.With(errext.Native, "", err)
}

// dumpOptions returns the options of a dump's header: the keys of the
// configuration that decide the episodes, and the resolved options.
func (p *player) dumpOptions() map[string]any {
	m := p.cfg.EpisodeValues()
	m["episode"] = p.env.Setup.Options
	if p.bundle != nil && WritesDate(p.bundle.ChatTemplate()) {
		m[DayOption] = p.day.Format(time.DateOnly)
	}
	if p.cfg.Rollout.Deterministic { // the number of threads changes rounding
		m["threads"] = torch.NumThreads()
		if n := p.host.Ranks.Size(); n > 1 {
			m["processes"] = n
		}
	}
	return m
}

// play plays every task, and returns the episodes and the statistics of the
// servers. The parameter more is a function that sets further options.
func (p *player) play(ctx context.Context, o PlayOptions, more func(*rollout.Options)) ([]*data.Episode, eval.Infrastructure, error) {
	name, total := p.cfg.Env[0].Name, p.total()
	bar := p.host.Progress("playing "+name, total)
	defer bar.Done()
	bar.Live(p.sampled)
	ro := rolloutOptions(p.host, p.cfg)
	ro.GroupSize = p.samples()
	ro.MaxFailed = max(o.MaxLost, math.SmallestNonzeroFloat64) // 0 would mean no limit
	ro.OnProgress = func(pr rollout.Progress) {
		bar.Set(total-pr.Total+pr.Done, fmt.Sprintf("%d solved", pr.Success)) // skipped episodes count as done
	}
	more(&ro)
	episodes, stats, err := rollout.RunEpisodes(ctx, map[string]rollout.Env{name: p.env}, p.tasks, ro)
	if p.endpoint != nil {
		u := p.endpoint.Usage()
		p.host.Log.Info("usage of the endpoint", "requests", u.Requests, "retries", u.Retries, "prompt_tokens", u.PromptTokens, "completion_tokens", u.CompletionTokens)
	}
	met := eval.Infrastructure{Retries: stats.Retries, Replays: stats.Replays, Servers: p.world.Pool.Counts(), MixedStarts: stats.MixedStarts, BadTasks: stats.BadTasks}
	return episodes, met, p.playError(err)
}

// sampled describes the tokens that were sampled so far.
func (p *player) sampled() string {
	if p.endpoint != nil {
		u := p.endpoint.Usage()
		return strings.TrimSpace(fmt.Sprintf("%d requests %s", u.Requests, SampledNote(int(u.CompletionTokens))))
	}
	return SampledNote(int(p.sampler.Scheduler.Stats().SampledTokens))
}

// playError adds the exit code and the hint to an error of a rollout.
func (p *player) playError(err error) error {
	if is[*agent.PromptError](err) {
		leave := "skip the task with " + p.host.name("env.0.skip_tasks")
		if p.world.Spec.Prompts {
			leave = "remove its row"
		}
		return errext.With(errext.Input, fmt.Sprintf("raise %s, at most to the number of positions of the model, or %s", p.host.name("rollout.max_context_tokens"), leave), err)
	}
	if failed, lost := errors.AsType[*rollout.FailedError](err); p.endpoint != nil && lost && failed.Outcome == data.EngineError {
		return errext.With(errext.Env, "", err) // the failed engine is the endpoint, not the native library
	}
	return err
}
