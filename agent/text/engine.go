// Package text lets engines that only speak text play episodes.
//
// The episode loop appends token ids (agent, agent/llm/engine). An engine that has
// no vocabulary of its own, such as a service on the network, is given
// conversations instead: here a byte of text is an id, and a few ids above the
// bytes stand for what text cannot say, who speaks and where a message ends.
// So every format and every rule of the loop holds for such an engine too,
// with one difference: lengths in ids are lengths in bytes, and log-probs are
// 0. The ids are no model's; episodes are kept without them
// (data.Episode.ForgetIDs), and cannot be trained on token by token.
//
// It owns the ids, the Renderer, and the Engine that turns a Speaker into an
// engine.Engine. It knows no network; agent/openai is the Speaker that does.
//
// Concurrency: Renderer is stateless. An Engine may be used by many goroutines
// if its Speaker may.
package text

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
)

// Speaker says what comes next in a conversation. It may be called by many
// goroutines.
type Speaker interface {
	Say(ctx context.Context, a Ask) (Said, error)
}

// Ask is what a Speaker is asked.
type Ask struct {
	Key      engine.Key     // run, task and sample: a draw of one's own should depend on it and on Params.Turn
	Messages []data.Message // the whole conversation; the last one is not the assistant's
	Params   engine.Params  // StopStrings are cut off by the Engine; StopTokens mean nothing here
	Context  int            // tokens that the conversation took at the last reply, 0 if nobody said
}

// Said is a reply.
type Said struct {
	Text string
	// Stop is StopEOS ("" too) if the reply is whole, StopLength if it reached
	// Params.MaxNew, StopContext if the conversation has no room for it.
	Stop    engine.StopReason
	Context int // tokens of the conversation, this reply included; 0 if unknown
}

// Engine is an engine.Engine over a Speaker. Each session is one conversation;
// the whole of it is handed to the Speaker every time.
type Engine struct{ Speaker Speaker }

// conversation is the state of a session.
type conversation struct {
	ids     []int32
	context int

	mu     sync.Mutex // guards what follows
	closed bool
	broken bool
}

// Open starts a conversation. It never waits.
func (e *Engine) Open(ctx context.Context, o engine.SessionOptions) (*engine.Session, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return engine.NewSession(o, &conversation{}), nil
}

// Generate appends ids to the conversation and asks the Speaker for a reply.
// A stop string ends the reply right behind it, wherever the Speaker would
// have gone on.
func (e *Engine) Generate(ctx context.Context, s *engine.Session, ids []int32, p engine.Params) (engine.Reply, error) {
	c, ok := s.State().(*conversation)
	if !ok {
		return engine.Reply{}, errors.New("the session is another engine's")
	}
	if err := c.usable(); err != nil {
		return engine.Reply{}, err
	}
	c.ids = append(c.ids, ids...)
	messages, err := parse(c.ids)
	if err != nil {
		c.setBroken()
		return engine.Reply{}, err
	}
	said, err := e.Speaker.Say(ctx, Ask{Key: s.Options().Key, Messages: messages, Params: p, Context: c.context})
	if err != nil {
		c.setBroken()
		return engine.Reply{}, err
	}
	r := engine.Reply{Stop: said.Stop}
	if r.Stop == "" {
		r.Stop = engine.StopEOS
	}
	text, cut := cutBehind(said.Text, p.StopStrings)
	if cut {
		r.Stop = engine.StopString
	}
	// The last id says how it ended, so that no reply is without ids.
	last := idCut
	if r.Stop == engine.StopEOS {
		last = idEnd
	}
	r.IDs = append(bytesOf(text), last)
	r.LogProbs = make([]float32, len(r.IDs))
	c.ids = append(c.ids, r.IDs...)
	c.context = said.Context
	return r, nil
}

// Close forgets the conversation.
func (e *Engine) Close(s *engine.Session) {
	if c, ok := s.State().(*conversation); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closed = true
	}
}

func (c *conversation) usable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return engine.ErrSessionClosed
	case c.broken:
		return engine.ErrSessionBroken
	}
	return nil
}

func (c *conversation) setBroken() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = true
}

// cutBehind cuts text behind the stop string that is complete first.
func cutBehind(text string, stops []string) (string, bool) {
	end := len(text) + 1
	for _, stop := range stops {
		if i := strings.Index(text, stop); i >= 0 {
			end = min(end, i+len(stop))
		}
	}
	if end > len(text) {
		return text, false
	}
	return text[:end], true
}
