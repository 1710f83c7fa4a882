package openai

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/text"
	"github.com/openmanus/openmanus/data"
)

// Speaker is a text.Speaker: text.Engine{Speaker: …} is an engine.Engine that
// uses Client.
//
// Stop strings are not sent, because an endpoint removes the string from its
// reply, and a format that looks for a closing tag would miss the tag.
// text.Engine cuts the reply after the stop string instead.
type Speaker struct {
	Client *Client
	// MaxContext is the maximum number of tokens of a conversation, as reported
	// in the endpoint's usage; 0 leaves the limit to the endpoint.
	MaxContext int
}

// Reply requests the next reply of a conversation.
func (s *Speaker) Reply(ctx context.Context, in text.Request) (text.Reply, error) {
	full := text.Reply{Stop: engine.StopContext, Context: in.Context}
	r := RequestOf(in.Params)
	r.Messages = in.Messages
	if s.MaxContext > 0 {
		left := s.MaxContext - in.Context
		if left < 1 {
			return full, nil
		}
		r.MaxTokens = min(r.MaxTokens, left)
	}
	seed := seedOf(in.Key, in.Params.Turn)
	r.Seed = &seed
	reply, err := s.Client.Chat(ctx, r)
	if errors.Is(err, KindContext) {
		return full, nil
	}
	if err != nil {
		return text.Reply{}, err
	}
	out := text.Reply{Text: reply.Text, Stop: engine.StopEOS, Context: int(reply.Usage.PromptTokens + reply.Usage.CompletionTokens)}
	if s.MaxContext > 0 && out.Context == 0 {
		return text.Reply{}, &Error{
			Kind: KindMalformed, URL: s.Client.o.BaseURL + chatPath, Status: 200, Attempts: 1,
			Err: errors.New("the endpoint reports no usage, so the context limit cannot be enforced: remove the limit"),
		}
	}
	switch {
	case s.MaxContext > 0 && out.Context > s.MaxContext:
		return full, nil
	case reply.Finish == finishLength && s.MaxContext > 0 && out.Context >= s.MaxContext:
		return full, nil // the reply is incomplete and the context is full
	case reply.Finish == finishLength:
		out.Stop = engine.StopLength
	}
	return out, nil
}

// RequestOf returns a request with the sampling parameters p.
func RequestOf(p engine.Params) Request {
	r := Request{MaxTokens: p.MaxNew, Temperature: decimal(p.Temperature), TopP: decimal(p.TopP), TopK: p.TopK}
	if p.Greedy {
		r.Temperature, r.TopP, r.TopK = 0, 0, 0
	}
	return r
}

// decimal converts a float32 to the shortest decimal: 0.7, not 0.699999988079071.
func decimal(x float32) float64 {
	var v float64
	if _, err := fmt.Sscan(fmt.Sprint(x), &v); err != nil {
		return float64(x)
	}
	return v
}

// seedOf returns the seed of one reply, which depends on task, sample and turn,
// as in local sampling. Endpoints do not guarantee reproducible replies. The
// seed has 31 bits, which all endpoints accept.
func seedOf(k engine.Key, turn int) int64 {
	h := engine.TaskHash(fmt.Sprintf("%d/%s/%d/%d", k.Seed, k.Task, k.Sample, turn))
	return int64(h >> 33)
}

// Summarizer requests replies to single prompts, such as a summary of an
// episode's past. OpenManus-RL's SummarizedMemory uses at most 300 tokens, a
// temperature of 0.1 and a timeout of 30 s. Summarizer's timeout is the Client's
// Options.Timeout.
type Summarizer struct {
	Client      *Client
	MaxTokens   int
	Temperature float64
}

// Summarize returns the endpoint's reply to a prompt.
func (s *Summarizer) Summarize(ctx context.Context, prompt string) (string, error) {
	reply, err := s.Client.Chat(ctx, Request{
		Messages:  []data.Message{{Role: "user", Content: prompt}},
		MaxTokens: s.MaxTokens, Temperature: s.Temperature,
	})
	return reply.Text, err
}
