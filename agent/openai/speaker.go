package openai

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/text"
	"github.com/openmanus/openmanus/data"
)

// Speaker plays episodes with a Client: text.Engine{Speaker: …} is an
// engine.Engine over it.
//
// Stop strings are not sent: an endpoint takes the string that stopped it out
// of its reply and does not say which it was, and a format that looks for a
// closing tag would miss it. text.Engine cuts the reply behind one instead.
type Speaker struct {
	Client *Client
	// MaxContext is the most tokens a conversation may take, as the endpoint's
	// usage reports them; 0 leaves it to the endpoint to say that it is full.
	MaxContext int
}

// Say asks the endpoint to go on with a conversation.
func (s *Speaker) Say(ctx context.Context, a text.Ask) (text.Said, error) {
	full := text.Said{Stop: engine.StopContext, Context: a.Context}
	r := RequestOf(a.Params)
	r.Messages = a.Messages
	if s.MaxContext > 0 {
		left := s.MaxContext - a.Context
		if left < 1 {
			return full, nil
		}
		r.MaxTokens = min(r.MaxTokens, left)
	}
	seed := seedOf(a.Key, a.Params.Turn)
	r.Seed = &seed
	reply, err := s.Client.Chat(ctx, r)
	if errors.Is(err, KindContext) {
		return full, nil
	}
	if err != nil {
		return text.Said{}, err
	}
	said := text.Said{Text: reply.Text, Stop: engine.StopEOS, Context: int(reply.Usage.PromptTokens + reply.Usage.CompletionTokens)}
	if s.MaxContext > 0 && said.Context == 0 {
		return text.Said{}, &Error{
			Kind: KindMalformed, URL: s.Client.o.BaseURL + chatPath, Status: 200, Attempts: 1,
			Err: errors.New("it reports no usage, so the conversation cannot be held to a number of tokens: leave that limit out"),
		}
	}
	switch {
	case s.MaxContext > 0 && said.Context > s.MaxContext:
		return full, nil
	case reply.Finish == finishLength && s.MaxContext > 0 && said.Context >= s.MaxContext:
		return full, nil // the reply is not whole, and there is no room for the rest
	case reply.Finish == finishLength:
		said.Stop = engine.StopLength
	}
	return said, nil
}

// RequestOf are the parameters of a request for a reply.
func RequestOf(p engine.Params) Request {
	r := Request{MaxTokens: p.MaxNew, Temperature: decimal(p.Temperature), TopP: decimal(p.TopP), TopK: p.TopK}
	if p.Greedy {
		r.Temperature, r.TopP, r.TopK = 0, 0, 0
	}
	return r
}

// decimal is a float32 as its user wrote it: 0.7, not 0.699999988079071.
func decimal(x float32) float64 {
	var v float64
	if _, err := fmt.Sscan(fmt.Sprint(x), &v); err != nil {
		return float64(x)
	}
	return v
}

// seedOf is the seed of one reply: it tells tasks, samples and turns apart, as
// the local sampler's draws do. What an endpoint makes of it is its own affair;
// none promises to repeat itself. It has 31 bits, which all of them take.
func seedOf(k engine.Key, turn int) int64 {
	h := engine.TaskHash(fmt.Sprintf("%d/%s/%d/%d", k.Seed, k.Task, k.Sample, turn))
	return int64(h >> 33)
}

// Summarizer answers single prompts, such as those that ask for a summary of
// what happened so far. OpenManus-RL's memory (its SummarizedMemory) asks for
// 300 tokens at most with a temperature of 0.1; the time it allows, 30 s, is
// the Client's Options.Timeout.
type Summarizer struct {
	Client      *Client
	MaxTokens   int
	Temperature float64
}

// Summarize returns what the endpoint says to a prompt.
func (s *Summarizer) Summarize(ctx context.Context, prompt string) (string, error) {
	reply, err := s.Client.Chat(ctx, Request{
		Messages:  []data.Message{{Role: "user", Content: prompt}},
		MaxTokens: s.MaxTokens, Temperature: s.Temperature,
	})
	return reply.Text, err
}
