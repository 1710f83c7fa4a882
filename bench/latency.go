package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/fault"
	"github.com/openmanus/openmanus/internal/process"
)

// LatencyOptions describe a rollout against a slow environment: Episodes
// concurrent maze episodes of at most Turns turns each.
type LatencyOptions struct {
	Episodes, Turns int
	Pause           time.Duration // delay before the server handles a request
	Rounds          int
}

// latencyFactor bounds the extra time of the whole rollout, as a multiple of the
// waiting time of one episode: waits of different episodes must overlap.
const latencyFactor = 1.3

// Latency has the times of the rollout without and with the pause. The server
// pauses before every request. The bound does not include the pauses of creating
// and resetting an instance.
type Latency struct {
	Episodes int     `json:"episodes"`
	Turns    int     `json:"turns"` // turns played in all episodes
	Pause    float64 `json:"pause_s"`
	Base     float64 `json:"base_s"` // fastest rollout without a pause
	Slow     float64 `json:"slow_s"` // fastest rollout with the pause
	Bound    float64 `json:"bound_s"`
	Hidden   bool    `json:"hidden"` // Slow is within Bound

	BaseRuns []LatencyRun `json:"base_runs"`
	SlowRuns []LatencyRun `json:"slow_runs"`
}

// LatencyRun has the times of one rollout. Latency is hidden only while the engine
// is busy.
type LatencyRun struct {
	Seconds float64 `json:"seconds"`
	Busy    float64 `json:"engine_busy_s"`
	CPU     float64 `json:"cpu_s"` // CPU time of the whole process
	Steps   int64   `json:"engine_steps"`
}

func fastest(runs []LatencyRun) float64 {
	return slices.MinFunc(runs, func(a, b LatencyRun) int { return cmp.Compare(a.Seconds, b.Seconds) }).Seconds
}

// judge computes the bound and the verdict.
func (l *Latency) judge(o LatencyOptions) {
	l.Pause = o.Pause.Seconds()
	l.Base, l.Slow = fastest(l.BaseRuns), fastest(l.SlowRuns)
	l.Bound = l.Base + latencyFactor*float64(o.Turns)*l.Pause
	l.Hidden = l.Slow <= l.Bound
}

// measureLatency plays the same episodes alternately without and with the pause.
func measureLatency(ctx context.Context, o LatencyOptions) (l Latency, err error) {
	w, err := openTinyWorld(ctx, o)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, w.open.Close()) }()
	l.Episodes = o.Episodes
	for round := range o.Rounds + 1 {
		for _, s := range []struct {
			pause time.Duration
			runs  *[]LatencyRun
		}{{0, &l.BaseRuns}, {o.Pause, &l.SlowRuns}} {
			run, stats, err := w.timed(ctx, o, s.pause)
			if err != nil {
				return l, err
			}
			l.Turns = stats.Turns
			if round > 0 {
				*s.runs = append(*s.runs, run)
			}
		}
	}
	l.judge(o)
	return l, nil
}

// tinyWorld is a model of the quickstart's size with random weights. Its
// replies hold no action, but each is still sent to the environment, so that
// every episode takes its full number of turns.
type tinyWorld struct {
	host    run.Host
	spec    env.Spec
	setup   agent.Setup
	backend *timedBackend
	sampler *run.Sampler
	open    run.Closers
}

const (
	tinyContext = 2048
	mazeStarts  = 25 // cells an episode can start from
)

func openTinyWorld(ctx context.Context, o LatencyOptions) (w *tinyWorld, err error) {
	w = &tinyWorld{host: run.Host{}.WithDefaults()}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.open.Close())
		}
	}()
	if w.spec, err = env.Lookup("maze"); err != nil {
		return nil, err
	}
	format, err := agent.Formats.Lookup(env.FormatReact)
	if err != nil {
		return nil, err
	}
	thread, err := run.OpenThread(&w.host, "cpu")
	if err != nil {
		return nil, err
	}
	w.open.AddFunc(thread.Close)
	words := data.Task{Conversation: []data.Message{{Role: "user", Content: w.spec.Instruction(env.FormatReact)}, {Role: "assistant"}}}
	tiny, err := run.FreshModel(ctx, thread, configs.Fresh{
		Layers: 4, HiddenSize: 128, IntermediateSize: 384, Heads: 4, KVHeads: 2, Vocabulary: "bpe", VocabSize: 512,
	}, tinyContext, 1, []data.Task{words})
	if err != nil {
		return nil, err
	}
	w.open.AddFunc(tiny.Close)
	w.sampler, err = run.NewSampler(ctx, tiny, tiny.Model, run.SamplerOptions{
		Sequences: o.Episodes, MaxContext: tinyContext, MemoryShare: 1, Day: time.Now(),
		Wrap: func(b engine.Backend) engine.Backend {
			w.backend = &timedBackend{Backend: b}
			return w.backend
		},
	})
	if err != nil {
		return nil, err
	}
	w.open.AddFunc(w.sampler.Close)
	w.setup = agent.Setup{
		Engine: w.sampler.Scheduler, Renderer: w.sampler.Renderer, Format: format, Spec: w.spec,
		Options: agent.Options{MaxTurns: o.Turns, MaxNewTokens: 10, MaxContext: tinyContext, Temperature: 1},
	}
	return w, nil
}

// timedBackend measures the total time of the engine's steps.
type timedBackend struct {
	engine.Backend
	busy atomic.Int64 // nanoseconds
}

// Step implements engine.Backend.
func (b *timedBackend) Step(ctx context.Context, batch []engine.Work) ([]engine.Sampled, error) {
	began := time.Now()
	defer func() { b.busy.Add(int64(time.Since(began))) }()
	return b.Backend.Step(ctx, batch)
}

// timed calls the method play and also returns the times of the rollout.
func (w *tinyWorld) timed(ctx context.Context, o LatencyOptions, pause time.Duration) (r LatencyRun, st rollout.Stats, err error) {
	busy, steps, cpu := w.backend.busy.Load(), w.sampler.Scheduler.Stats().Steps, process.CPUTime()
	st, err = w.play(ctx, o, pause)
	return LatencyRun{
		Seconds: st.Elapsed.Seconds(),
		Busy:    time.Duration(w.backend.busy.Load() - busy).Seconds(),
		CPU:     (process.CPUTime() - cpu).Seconds(),
		Steps:   w.sampler.Scheduler.Stats().Steps - steps,
	}, st, err
}

// play rolls the episodes out against a fresh server that pauses before every
// request.
func (w *tinyWorld) play(ctx context.Context, o LatencyOptions, pause time.Duration) (st rollout.Stats, err error) {
	faults, err := fault.Parse("slow:" + pause.String())
	if err != nil {
		return st, err
	}
	server, err := builtin.Serve(ctx, w.spec.Name, "127.0.0.1:0", builtin.Options{Faults: faults})
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, server.Close(context.WithoutCancel(ctx))) }()
	maze := run.Schema.DefaultEnv(w.spec.Name)
	maze.Servers = []string{server.URL}
	world, err := run.OpenWorld(ctx, &w.host, maze, run.WorldOptions{})
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, world.Close()) }()

	var tasks []data.Task
	for i := range o.Episodes {
		tasks = append(tasks, data.Task{ID: fmt.Sprintf("maze_%d", i), Env: w.spec.Name, Index: i % mazeStarts})
	}
	envs := map[string]rollout.Env{w.spec.Name: {Pool: world.Pool, Setup: w.setup}}
	_, st, err = rollout.RunEpisodes(ctx, envs, tasks, rollout.Options{
		GroupSize: 1, Concurrency: o.Episodes, Seed: 1, Attempts: 1,
	})
	if err == nil && st.Failed > 0 {
		err = fmt.Errorf("%d of %d episodes failed", st.Failed, o.Episodes)
	}
	return st, err
}
