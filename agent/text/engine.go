// Package text lets text-only engines play episodes.
//
// The episode loop appends token ids (agent, agent/llm/engine). An engine
// without a vocabulary, such as a network service, takes conversations instead.
// In this package each byte of text is an id, and a few ids above the bytes
// mark roles and the ends of messages. All formats and rules of the loop then
// apply to such an engine, except that lengths are in bytes and log-probs are
// 0. The ids are not a model's ids, so episodes are stored without them
// (data.Episode.ForgetIDs) and cannot be trained on token by token.
//
// The package contains the ids, the Renderer, and the Engine, which adapts a
// Speaker to engine.Engine. agent/openai has the Speaker for network endpoints.
//
// Concurrency: Renderer is stateless. An Engine may be used by many goroutines
// if its Speaker may.
package text

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
)

// Speaker generates the next reply of a conversation. Many goroutines call it.
type Speaker interface {
	Reply(ctx context.Context, r Request) (Reply, error)
}

// Request is a request for the next reply of a conversation.
type Request struct {
	Key      engine.Key     // run, task and sample; sampling should depend on them and on Params.Turn
	Messages []data.Message // the whole conversation; the last message is not the assistant's
	Params   engine.Params  // the Engine applies StopStrings; StopTokens are ignored
	Context  int            // tokens of the conversation after the last reply; 0 if unknown
}

// Reply is the reply to a Request.
type Reply struct {
	Text string
	// Stop is StopEOS or "" if the reply is complete, StopLength if it reached
	// Params.MaxNew, StopContext if the context is full.
	Stop    engine.StopReason
	Context int // tokens of the conversation with this reply; 0 if unknown
}

// Engine implements engine.Engine with a Speaker. Each session is one
// conversation, which the Speaker receives in full for every reply.
type Engine struct{ Speaker Speaker }

// conversation is the state of a session.
type conversation struct {
	ids     []int32
	context int
	closed  atomic.Bool
	broken  bool // a call failed; only Generate uses this field
}

// Open starts a conversation. It never blocks.
func (e *Engine) Open(ctx context.Context, o engine.SessionOptions) (*engine.Session, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return engine.NewSession(o, &conversation{}), nil
}

// Generate appends ids to the conversation and requests a reply from the Speaker.
// It cuts the reply after the first stop string.
func (e *Engine) Generate(ctx context.Context, s *engine.Session, ids []int32, p engine.Params) (engine.Reply, error) {
	c, ok := s.State().(*conversation)
	if !ok {
		return engine.Reply{}, errors.New("the session belongs to another engine")
	}
	switch {
	case c.closed.Load():
		return engine.Reply{}, engine.ErrSessionClosed
	case c.broken:
		return engine.Reply{}, engine.ErrSessionBroken
	}
	if p.Top > 0 {
		return engine.Reply{}, errors.New("an engine that exchanges text cannot report the most probable tokens")
	}
	c.broken = true // reset when the reply is complete
	c.ids = append(c.ids, ids...)
	messages, err := parse(c.ids)
	if err != nil {
		return engine.Reply{}, err
	}
	reply, err := e.Speaker.Reply(ctx, Request{Key: s.Options().Key, Messages: messages, Params: p, Context: c.context})
	if err != nil {
		return engine.Reply{}, err
	}
	r := engine.Reply{Stop: reply.Stop}
	r.Stop = cmp.Or(r.Stop, engine.StopEOS)
	text, cut := cutAfter(reply.Text, p.StopStrings)
	if cut {
		r.Stop = engine.StopString
	}
	// The last id marks the end, so every reply has at least one id.
	last := idCut
	if r.Stop == engine.StopEOS {
		last = idEnd
	}
	r.IDs = append(bytesOf(text), last)
	r.LogProbs = make([]float32, len(r.IDs))
	c.ids = append(c.ids, r.IDs...)
	c.context, c.broken = reply.Context, false
	if p.Each != nil { // the Speaker returns whole replies
		for _, id := range r.IDs {
			p.Each(engine.Token{ID: id})
		}
	}
	return r, nil
}

// Close ends the session.
func (e *Engine) Close(s *engine.Session) {
	if c, ok := s.State().(*conversation); ok {
		c.closed.Store(true)
	}
}

// cutAfter cuts text after the stop string that ends first.
func cutAfter(text string, stops []string) (string, bool) {
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
