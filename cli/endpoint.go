package cli

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"net/url"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/openai"
	"github.com/openmanus/openmanus/agent/text"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

// openEndpoint connects to the endpoint of [rollout.api] and completes p with
// an engine over it. A request checks that the endpoint can be used.
func (s *State) openEndpoint(ctx context.Context, p *playing, o playOptions) error {
	api := o.Rollout.API
	key := s.Getenv(api.KeyEnv)
	s.warnOfOpenKey(api.BaseURL, key)
	client, err := openai.New(openai.Options{
		BaseURL: api.BaseURL, Model: api.Model, Key: key, Concurrency: cmp.Or(api.Concurrency, o.concurrency()),
		Timeout: seconds(api.TimeoutS), Attempts: api.Retries + 1, Log: s.Log,
	})
	if err != nil {
		return errext.With(errext.Input, "", err)
	}
	p.endpoint = client
	p.open.addFunc(client.Close)
	options := p.env.Setup.Options
	if err := client.Check(ctx, openai.RequestOf(engine.Params{
		Temperature: options.Temperature, Greedy: options.Greedy, TopP: options.TopP, TopK: options.TopK,
	})); err != nil {
		return err
	}
	p.env.Setup.Engine = &text.Engine{Speaker: &openai.Speaker{Client: client, MaxContext: o.Rollout.MaxContextTokens}}
	p.env.Setup.Renderer = text.Renderer{}
	p.env.Setup.NoIDs = true
	// The engine counts bytes here, and the Speaker counts tokens.
	p.env.Setup.Options.MaxContext = math.MaxInt32
	return nil
}

// openSummarizer connects to the endpoint that writes summaries and closes the
// connection with open. A request checks that the endpoint can be used.
func (s *State) openSummarizer(ctx context.Context, open *closers, o configs.Summary) (agent.Summarizer, error) {
	key := s.Getenv(o.KeyEnv)
	s.warnOfOpenKey(o.BaseURL, key)
	client, err := openai.New(openai.Options{
		BaseURL: o.BaseURL, Model: o.Model, Key: key, Concurrency: o.Concurrency, Timeout: seconds(o.TimeoutS), Log: s.Log,
	})
	if err != nil {
		return nil, errext.With(errext.Input, "", fmt.Errorf("the endpoint of summaries (agent.summary): %w", err))
	}
	open.addFunc(client.Close)
	if err := client.Check(ctx, openai.Request{Temperature: o.Temperature}); err != nil {
		return nil, fmt.Errorf("the endpoint of summaries (agent.summary): %w", err)
	}
	return &openai.Summarizer{Client: client, MaxTokens: o.MaxTokens, Temperature: o.Temperature}, nil
}

// warnOfOpenKey warns if a key crosses the network unencrypted.
func (s *State) warnOfOpenKey(address, key string) {
	if u, err := url.Parse(address); err == nil && key != "" && u.Scheme == "http" && !loopback(u.Hostname()) {
		s.Log.Warn("the key crosses the network unencrypted: use an https:// address", "host", u.Host)
	}
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
