package cli

import (
	"cmp"
	"context"
	"math"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/openai"
	"github.com/openmanus/openmanus/agent/text"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/internal/errext"
)

// openEndpoint connects to the endpoint of [rollout.api] and completes p with
// an engine over it. A request checks that the endpoint can be used.
func (s *State) openEndpoint(ctx context.Context, p *playing, o playOptions) error {
	api := o.Rollout.API
	key := s.Getenv(api.KeyEnv)
	run.WarnPlainKey(&s.Host, api.BaseURL, key)
	client, err := openai.New(openai.Options{
		BaseURL: api.BaseURL, Model: api.Model, Key: key, Concurrency: cmp.Or(api.Concurrency, o.concurrency()),
		Timeout: run.Seconds(api.TimeoutS), Attempts: api.Retries + 1, Log: s.Log,
	})
	if err != nil {
		return errext.With(errext.Input, "", err)
	}
	p.endpoint = client
	p.open.AddFunc(client.Close)
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
