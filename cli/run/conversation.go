package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/data"
)

// ConverseOptions are the options of Converse that are not configuration keys.
type ConverseOptions struct {
	System string // system prompt; "": none
	// Plain continues the texts without the chat template. Texts and replies then form one
	// text.
	Plain bool
}

// Sampling holds the settings of the next replies.
type Sampling struct {
	Temperature  float64
	Greedy       bool
	TopP         float64
	TopK         int // 0: off
	MaxNewTokens int
	Seed         uint64
}

// Conversation is a conversation with a model. Its methods must not be called concurrently.
type Conversation struct {
	Sampling Sampling
	Model    *model.Bundle

	sampler  *Sampler
	o        ConverseOptions
	number   int // conversations before this one
	replies  int
	session  *engine.Session // nil: the next reply opens one with c.ids
	ids      []int32         // the context so far
	eos      bool            // the last id is a stop token
	messages []data.Message
}

// ErrContextFull is the cause of the error of Say if the context has no room for a reply.
var ErrContextFull = errors.New("the context has no room for a reply")

// Converse opens the model of [model] and calls talk with a conversation. The sampling settings
// are rollout.val, rollout.top_p, rollout.top_k, rollout.max_new_tokens and trainer.seed;
// rollout.max_context_tokens limits the conversation, up to the positions of the model.
func (r *Run) Converse(ctx context.Context, o ConverseOptions, talk func(*Conversation) error) (err error) {
	h, cfg := &r.host, r.cfg
	var open Closers
	defer func() { err = errors.Join(err, open.Close()) }()
	b, sampler, err := openLocal(ctx, h, &open, cfg, SamplerOptions{Sequences: 1, Day: h.Now(), Plain: o.Plain})
	if err != nil {
		return err
	}
	c := &Conversation{Model: b, sampler: sampler, o: o}
	temperature, greedy := sampledAt(cfg)
	c.Sampling = Sampling{
		Temperature: temperature, Greedy: greedy, TopP: cfg.Rollout.TopP, TopK: max(cfg.Rollout.TopK, 0),
		MaxNewTokens: cfg.Rollout.MaxNewTokens, Seed: cfg.Trainer.Seed,
	}
	defer c.endSession()
	return talk(c)
}

// MaxContext returns the maximum number of tokens of the conversation.
func (c *Conversation) MaxContext() int { return c.sampler.MaxContext }

// Tokens returns the number of tokens of the conversation.
func (c *Conversation) Tokens() int { return len(c.ids) }

// Messages returns the messages so far. A reply that was stopped is in it as far as it was sampled.
func (c *Conversation) Messages() []data.Message { return slices.Clone(c.messages) }

// Reset begins a new conversation with the same system prompt.
func (c *Conversation) Reset() {
	c.endSession()
	c.number++
	c.replies, c.ids, c.messages, c.eos = 0, nil, nil, false
}

// SetSystem sets the system prompt and begins a new conversation.
func (c *Conversation) SetSystem(text string) {
	c.o.System = text
	c.Reset()
}

// Plain reports whether the chat template is not used.
func (c *Conversation) Plain() bool { return c.o.Plain }

func (c *Conversation) endSession() {
	if c.session != nil {
		c.sampler.Scheduler.Close(c.session)
		c.session = nil
	}
}

// Said describes a reply.
type Said struct {
	Text   string
	Tokens int // with the stop token
	Stop   engine.StopReason
}

// Say adds a message of the user and generates the reply, whose text it passes to show piece
// by piece. The draws depend only on the seed, the number of the conversation and the number
// of the reply: those of the first reply equal Generate's for the first row of a file. If ctx
// ends, the reply so far stays in the conversation, or the message is removed if there is
// none. After another error the conversation is unchanged.
func (c *Conversation) Say(ctx context.Context, text string, show func(piece string)) (Said, error) {
	ids, messages, err := c.next(text)
	if err != nil {
		return Said{}, err
	}
	if len(c.ids)+len(ids) >= c.MaxContext() {
		return Said{}, fmt.Errorf("%w: it holds %d tokens, the conversation has %d and the message %d", ErrContextFull, c.MaxContext(), len(c.ids), len(ids))
	}
	whole := slices.Concat(c.ids, ids)
	if c.session == nil {
		if c.session, err = c.sampler.Scheduler.Open(ctx, engine.SessionOptions{
			Key: engine.Key{Seed: c.Sampling.Seed, Task: "row_" + strconv.Itoa(c.number)}, MaxContext: c.MaxContext(),
		}); err != nil {
			return Said{}, err
		}
		ids = whole
	}
	s, stops := c.Sampling, c.stops()
	next, decode := c.decoders()
	reply, sampled, err := streamed(func(each func(engine.Token)) (engine.Reply, error) {
		return c.sampler.Scheduler.Generate(ctx, c.session, ids, engine.Params{
			MaxNew: s.MaxNewTokens, Temperature: float32(s.Temperature), Greedy: s.Greedy, TopP: float32(s.TopP), TopK: s.TopK,
			StopTokens: stops, Turn: c.replies, Each: each,
		})
	}, next, decode, stops, min(s.MaxNewTokens, c.MaxContext()), show)
	if err != nil {
		c.endSession()
		if ctx.Err() == nil || len(sampled) == 0 {
			return Said{}, err
		}
	}
	said := Said{Tokens: len(sampled), Stop: reply.Stop}
	c.eos = slices.Contains(stops, sampled[len(sampled)-1])
	c.ids = append(whole, sampled...)
	if c.eos {
		sampled = sampled[:len(sampled)-1]
	}
	said.Text = decode(sampled)
	c.messages = append(messages, data.Message{Role: "assistant", Content: said.Text})
	c.replies++
	return said, err
}

// next returns the ids that a message of the user adds to the context, and the messages with it.
func (c *Conversation) next(text string) (ids []int32, messages []data.Message, err error) {
	user := data.Message{Role: "user", Content: text}
	if c.o.Plain {
		ids := c.Model.Tokenizer.Encode(text, tokenizer.Options{AddSpecial: len(c.ids) == 0})
		if len(ids) == 0 {
			return nil, nil, errors.New("the text has no tokens")
		}
		return ids, append(c.Messages(), user), nil
	}
	if len(c.ids) > 0 {
		ids, err = c.sampler.Renderer.Next(c.eos, c.ids[len(c.ids)-1], []data.Message{user})
		return ids, append(c.Messages(), user), err
	}
	if c.o.System != "" {
		messages = append(messages, data.Message{Role: "system", Content: c.o.System})
	}
	messages = append(messages, user)
	ids, err = c.sampler.Renderer.Start(messages)
	return ids, messages, err
}

func (c *Conversation) stops() []int32 {
	if c.o.Plain {
		return c.Model.EOSTokenIDs()
	}
	return c.sampler.Renderer.StopTokens()
}

// decoders returns a decoder for one reply id by id and a decoder for a whole reply.
func (c *Conversation) decoders() (next func(int32) string, decode func([]int32) string) {
	tok := c.Model.Tokenizer
	return tok.Stream(true).Next, func(ids []int32) string { return tok.Decode(ids, true) }
}
