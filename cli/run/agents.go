package run

import (
	"context"
	"path/filepath"
	"time"

	"github.com/openmanus/openmanus/agent/llm/serve"
	"github.com/openmanus/openmanus/agent/remote"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/internal/errext"
)

// servesAgents reports whether agents in other programs play the training episodes.
func (t *training) servesAgents() bool { return t.cfg.Serve.Listen != "" && t.mode == reinforced }

// openAgents opens the record of the episodes that agents in other programs play, if
// serve.listen is set. When soft ends, a step that waits for agents is broken off.
func (t *training) openAgents(ctx, soft context.Context) error {
	if !t.servesAgents() {
		return nil
	}
	stop, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(soft, func() { cancel(algo.ErrInterrupted) })
	t.open.AddFunc(func() {
		unhook()
		cancel(nil)
	})
	var err error
	r := t.cfg.Rollout
	t.agents, err = remote.New(remote.Options{
		Engine: t.sampler.Scheduler, Renderer: t.sampler.Renderer, Tokenizer: t.bundle.Tokenizer,
		Temperature: float32(r.Temperature), TopP: float32(r.TopP), TopK: max(r.TopK, 0), Override: t.cfg.Serve.OverrideSampling,
		MaxNew: r.MaxNewTokens, MaxContext: t.sampler.MaxContext,
		Idle: Seconds(t.cfg.Serve.EpisodeTimeoutS), Waiting: t.cfg.Serve.MaxWaiting, Stop: stop, Log: t.host.Log,
	})
	if err != nil {
		return errext.With(errext.Input, "", err)
	}
	t.open.AddFunc(t.agents.Close)
	return nil
}

// serverGrace is the time that requests have to end after training.
const serverGrace = 5 * time.Second

// serveAgents starts the server of the agents. The function end stops it; without
// serve.listen it does nothing.
func (t *training) serveAgents(ctx context.Context) (end func() error, err error) {
	if t.agents == nil {
		return func() error { return nil }, nil
	}
	c := t.cfg.Serve
	o := ServeOptions{
		Addr: c.Listen, APIKey: t.host.Getenv(APIKeyEnv), Open: c.NoAPIKey, OpenKey: "serve.no_api_key = true", Queue: c.MaxWaiting, Timeout: Seconds(c.RequestTimeoutS), Grace: serverGrace,
	}
	s, err := startServer(ctx, t.host, serve.Options{
		Engine: t.sampler.Scheduler, Renderer: t.sampler.Renderer, Tokenizer: t.bundle.Tokenizer, Version: t.sampler.Backend.Version,
		Names: append([]string{filepath.Base(t.run.Dir)}, c.ModelNames...), MaxContext: t.sampler.MaxContext, Concurrent: t.sessions(), Sessions: t.agents,
	}, o, t.agents.Register)
	if err != nil {
		return nil, err
	}
	t.host.Log.Info("serving agents", "base_url", s.URL+"/v1", "model", filepath.Base(t.run.Dir))
	return func() error {
		s.handler.End(remote.Ended)
		t.agents.Close()
		return s.close(ctx)
	}, nil
}
