package cli

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/openai"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// formatOf is the format of a configured environment, with its options. What
// it needs besides is closed with open.
func (s *State) formatOf(ctx context.Context, open *closers, cfg configs.Config, e configs.Env, spec env.Spec) (agent.Format, error) {
	o := agent.FormatOptions{HistoryLength: e.HistoryLength}
	if e.MemoryFile != "" {
		o.MemoryFile = s.Path(e.MemoryFile)
	}
	if e.UseSummary {
		client, err := s.summaryClient(ctx, open, cfg.Agent.Summary)
		if err != nil {
			return nil, fmt.Errorf("agent.summary: %w", err)
		}
		o.Summarizer = summarizer{client: client, maxTokens: cfg.Agent.Summary.MaxTokens, temperature: cfg.Agent.Summary.Temperature}
	}
	f, err := agent.FormatFor(e.Format, spec, o)
	return f, errWith(ExitInput, "", err)
}

// summaryClient talks to the endpoint that writes summaries. It asks once, so
// that one which cannot be used is found out before anything is played.
func (s *State) summaryClient(ctx context.Context, open *closers, o configs.Summary) (*openai.Client, error) {
	key := s.Getenv(o.KeyEnv)
	s.warnOfOpenKey(o.BaseURL, key)
	client, err := openai.New(openai.Options{
		BaseURL: o.BaseURL, Model: o.Model, Key: key, Concurrency: o.Concurrency, Timeout: seconds(o.TimeoutS), Log: s.Log,
	})
	if err != nil {
		return nil, errWith(ExitInput, "", err)
	}
	open.addFunc(client.Close)
	return client, client.Check(ctx, openai.Request{Temperature: o.Temperature})
}

// summarizer asks an endpoint for summaries.
type summarizer struct {
	client      *openai.Client
	maxTokens   int
	temperature float64
}

// Summarize asks one question.
func (z summarizer) Summarize(ctx context.Context, prompt string) (string, error) {
	reply, err := z.client.Chat(ctx, openai.Request{
		Messages:  []data.Message{{Role: agent.RoleUser, Content: prompt}},
		MaxTokens: z.maxTokens, Temperature: z.temperature,
	})
	return reply.Text, err
}
