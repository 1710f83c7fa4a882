package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
)

// choice is one reply of a request. The goroutine that generates it sets reply and err
// before done is closed.
type choice struct {
	index int
	done  chan struct{}
	reply engine.Reply
	err   error

	mu     sync.Mutex
	prompt []int32        // set before the first token
	fresh  []engine.Token // tokens that take has not returned yet
	news   chan<- struct{}

	// The state of the goroutine that writes the reply:
	stops  []int32 // tokens that end a reply; their text is not part of it
	text   textStream
	bytes  *tokenizer.StreamDecoder
	sent   int  // tokens that were written
	listed int  // characters of the tokens that the log-probs of a completion have listed
	begun  bool // something was written
}

// hear receives a token from the engine. It never blocks.
func (c *choice) hear(t engine.Token) {
	c.mu.Lock()
	c.fresh = append(c.fresh, t)
	c.mu.Unlock()
	select {
	case c.news <- struct{}{}:
	default: // the writer has not read the last signal yet
	}
}

func (c *choice) begin(prompt []int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prompt = slices.Clone(prompt)
}

// take returns the tokens since the last call.
func (c *choice) take() []engine.Token {
	c.mu.Lock()
	defer c.mu.Unlock()
	tokens := c.fresh
	c.fresh = nil
	return tokens
}

// ended reports whether the reply is complete.
func (c *choice) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// part is a part of a choice, or the whole of it.
type part struct {
	text   string
	tokens []engine.Token
	finish string // "" unless the choice has ended
}

// next returns the part of a choice since the last call. finished means that the reply was
// complete before the call, so that this part is the last one.
func (c *choice) next(finished bool) part {
	p := part{tokens: c.take()}
	for _, t := range p.tokens {
		if !slices.Contains(c.stops, t.ID) {
			p.text += c.text.push(c.bytes.Next(t.ID))
		}
	}
	if finished {
		p.text += c.text.push(c.bytes.Flush()) + c.text.end()
		p.finish = finishReason(c.reply.Stop)
	}
	c.sent += len(p.tokens)
	return p
}

func finishReason(stop engine.StopReason) string {
	switch stop {
	case engine.StopEOS, engine.StopString:
		return "stop"
	}
	return "length"
}

// start begins to generate the replies of r, each in a goroutine. news receives a value
// after new tokens. wait returns when all goroutines have ended.
func (h *Handler) start(ctx context.Context, r *request) (choices []*choice, news <-chan struct{}, wait func()) {
	seed := randomSeed()
	if r.sampling.Seed != nil {
		seed = uint64(*r.sampling.Seed)
	}
	signal := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for i := range max(1, len(r.prompts)) * r.n {
		c := &choice{
			index: i, done: make(chan struct{}), news: signal,
			stops: h.o.Renderer.StopTokens(), text: textStream{stops: r.stops}, bytes: h.o.Tokenizer.Stream(true),
		}
		choices = append(choices, c)
		wg.Go(func() {
			defer close(c.done)
			if r.session != "" {
				c.reply, c.err = h.inSession(ctx, r, c)
			} else {
				c.reply, c.err = h.alone(ctx, r, c, engine.Key{Seed: seed, Task: "request", Sample: i})
			}
		})
	}
	return choices, signal, wg.Wait
}

// inSession generates the reply of a request with a session.
func (h *Handler) inSession(ctx context.Context, r *request, c *choice) (engine.Reply, error) {
	s := SessionRequest{
		ID: r.session, Task: r.task, Messages: r.messages, Sampling: r.sampling,
		MaxNew: r.maxNew, Stops: r.stops, Top: r.top, Begin: c.begin, Each: c.hear,
	}
	if len(r.prompts) > 0 {
		s.Prompt = r.prompts[0]
	}
	return h.o.Sessions.Generate(ctx, s)
}

// alone generates the reply of a request without a session, whose context ends with it.
// The choices of one prompt are open at the same time, so that the engine computes their
// prompt once.
func (h *Handler) alone(ctx context.Context, r *request, c *choice, key engine.Key) (engine.Reply, error) {
	prompt := r.prompts[c.index/r.n]
	c.begin(prompt)
	session, err := h.o.Engine.Open(ctx, engine.SessionOptions{Key: key, MaxContext: h.o.MaxContext})
	if err != nil {
		return engine.Reply{}, err
	}
	defer h.o.Engine.Close(session)
	p := r.sampling.Params()
	p.StopTokens, p.StopStrings, p.Top, p.Each = c.stops, r.stops, r.top, c.hear
	if p.MaxNew = r.maxNew; p.MaxNew == 0 {
		p.MaxNew = h.o.MaxContext - len(prompt)
	}
	return h.o.Engine.Generate(ctx, session, prompt, p)
}

// CheckLength returns an error if a prompt and a reply of the given numbers of tokens do
// not fit into the context. maxNew is 0 if the request does not limit the reply.
func CheckLength(maxContext, prompt, maxNew int) error {
	if prompt+max(maxNew, 1) <= maxContext {
		return nil
	}
	requested := fmt.Sprintf("the prompt has %d tokens", prompt)
	if maxNew > 0 {
		requested += fmt.Sprintf(" and the reply may have %d", maxNew)
	}
	return &Error{Status: http.StatusBadRequest, Type: invalidRequest, Code: "context_length_exceeded",
		Message: fmt.Sprintf("the maximum context length is %d tokens, but %s", maxContext, requested)}
}

// failure returns the error of a request whose generation failed with err.
func failure(ctx context.Context, err error) error {
	_, known := errors.AsType[*Error](err)
	switch {
	case err == nil, known:
		return err
	case ctx.Err() != nil:
		return timedOut(ctx)
	case errors.Is(err, engine.ErrShutdown):
		return errEnding
	}
	return err
}
