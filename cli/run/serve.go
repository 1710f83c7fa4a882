package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/openmanus/openmanus/agent/llm/serve"
	"github.com/openmanus/openmanus/internal/errext"
)

// ServeOptions configure the server of Serve and of a training run.
type ServeOptions struct {
	Addr    string        // address to listen on, with port 0 for a free one
	APIKey  string        // key that requests must have; "": none
	Open    bool          // other machines may use the server without a key
	OpenKey string        // the setting of Open, for error messages
	Names   []string      // further names of the model; serve.AnyName accepts every name
	Queue   int           // requests that wait for their turn
	Timeout time.Duration // time of a request
	Grace   time.Duration // time of running requests after an interrupt
	// Ready is called when the server listens, with its address and the name of the model.
	// Its error ends the server.
	Ready func(url, name string) error
}

// usualContext is the length of the context that a server has without a setting, unless the
// model has a shorter one. The KV cache of the longest context of a model can exceed the memory.
const usualContext = 8192

// reportEvery is the time between log lines of a server that answers requests.
const reportEvery = 10 * time.Second

// Serve answers the requests of OpenAI's API with the model of model.path until soft ends. It
// generates at most rollout.max_sequences replies at once, in contexts of at most
// rollout.max_context_tokens. When ctx ends, Serve breaks off the running requests.
func (r *Run) Serve(ctx, soft context.Context, o ServeOptions) (err error) {
	h, cfg := &r.host, r.cfg
	found, err := FindModel(ctx, h, cfg.Model.Path)
	if err != nil {
		return err
	}
	if cfg.Rollout.MaxContextTokens == 0 {
		d, err := DescribeModel(ctx, h, cfg.Model.Path)
		if err != nil {
			return err
		}
		cfg.Rollout.MaxContextTokens = min(d.Config.MaxPositionEmbeddings, usualContext)
	}
	var open Closers
	defer func() { err = errors.Join(err, open.Close()) }()
	bar := h.Progress("opening the model", 0)
	b, sampler, err := openLocal(ctx, h, &open, cfg, SamplerOptions{Sequences: cfg.Rollout.MaxSequences, Day: h.Now()})
	bar.Done()
	if err != nil {
		return err
	}
	name := servedName(found)
	h.Log.Info("model", "path", found.Path, "context_tokens", sampler.MaxContext, "kv_cache_bytes", sampler.KVBytes)
	s, err := startServer(ctx, h, serve.Options{
		Engine: sampler.Scheduler, Renderer: sampler.Renderer, Tokenizer: b.Tokenizer, Version: sampler.Backend.Version,
		Names: append([]string{name}, o.Names...), MaxContext: sampler.MaxContext, Concurrent: cfg.Rollout.MaxSequences,
	}, o, nil)
	if err != nil {
		return err
	}
	err = o.Ready(s.URL, name)
	if err == nil {
		select {
		case <-soft.Done():
		case <-s.Done():
		}
	}
	return errors.Join(err, errext.With(errext.Env, "", s.close(ctx)))
}

// servedName returns the name under which a model is served: the name of its run, of the
// model on the hub, or of its folder or file.
func servedName(f Found) string {
	switch {
	case f.Run != nil:
		return filepath.Base(f.Run.Dir)
	case f.Hub != "":
		return f.Hub
	}
	return strings.TrimSuffix(filepath.Base(f.Path), ".gguf")
}

// server is a server that logs its requests.
type server struct {
	*serve.Server
	handler   *serve.Handler
	grace     time.Duration
	endReport context.CancelFunc
	report    sync.WaitGroup
}

// startServer starts to answer requests. The function register, unless nil, adds endpoints. The
// caller calls close.
func startServer(ctx context.Context, h *Host, so serve.Options, o ServeOptions, register func(*serve.Handler)) (*server, error) {
	so.Queue, so.Timeout, so.APIKey, so.Log = o.Queue, o.Timeout, o.APIKey, h.Log
	handler, err := serve.New(so)
	if err != nil {
		return nil, errext.With(errext.Input, "", err)
	}
	if register != nil {
		register(handler)
	}
	s := &server{handler: handler, grace: o.Grace}
	if s.Server, err = serve.Listen(context.WithoutCancel(ctx), o.Addr, handler, o.Open); err != nil {
		hint := "choose another address; port 0 selects a free one"
		if errors.Is(err, serve.ErrNoKey) {
			hint = fmt.Sprintf("set %s, or %s to let every machine that reaches the address use the model", APIKeyEnv, o.OpenKey)
		}
		return nil, errext.With(errext.Env, hint, err)
	}
	var reporting context.Context
	reporting, s.endReport = context.WithCancel(context.WithoutCancel(ctx))
	s.report.Go(func() { handler.Report(reporting, reportEvery) })
	return s, nil
}

// APIKeyEnv is the environment variable with the key of a server.
const APIKeyEnv = "OPENMANUS_API_KEY"

// close waits for the running requests, at most for the grace period and until ctx ends.
func (s *server) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.grace)
	defer cancel()
	err := s.Close(ctx)
	s.endReport()
	s.report.Wait()
	return err
}
