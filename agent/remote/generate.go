package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/serve"
	"github.com/openmanus/openmanus/data"
)

// Generate implements serve.Sessions.
func (s *Store) Generate(ctx context.Context, r serve.SessionRequest) (engine.Reply, error) {
	p, err := s.params(r)
	if err != nil {
		return engine.Reply{}, err
	}
	e, err := s.enter(ctx, r.ID, r.Task)
	if err != nil {
		return engine.Reply{}, err
	}
	defer s.leave(e)
	c, next, more, err := s.take(e, r)
	if err != nil {
		return engine.Reply{}, err
	}
	defer s.release(e, c)
	if err := serve.CheckLength(s.o.MaxContext, len(c.ids)+len(more), 0); err != nil {
		return engine.Reply{}, err
	}
	r.Begin(slices.Concat(c.ids, more))
	began := time.Now()
	reply, err := s.sample(ctx, e, c, more, p)
	if err != nil {
		return reply, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.status != running {
		return reply, gone("the episode of session %s has ended before its reply: %s", e.id, e.ending())
	}
	s.record(e, c, r, next, more, reply, began)
	return reply, nil
}

// params returns the sampling parameters of a request.
func (s *Store) params(r serve.SessionRequest) (engine.Params, error) {
	p := engine.Params{
		MaxNew: s.o.MaxNew, Temperature: s.o.Temperature, TopP: s.o.TopP, TopK: s.o.TopK,
		StopTokens: s.o.Renderer.StopTokens(), StopStrings: r.Stops, Top: r.Top, Each: r.Each,
	}
	if r.MaxNew > 0 {
		p.MaxNew = min(r.MaxNew, p.MaxNew)
	}
	if s.o.Override {
		return p, nil
	}
	asked := r.Sampling
	refuse := func(name string, value any, key string, want any) error {
		return serve.Invalid(name, "%s is %v, but the episodes of this run are sampled with %s = %v, under which training computes log-probs; "+
			"leave %s out, or set serve.override_sampling = true", name, value, key, want, name)
	}
	switch {
	case asked.Temperature != nil && float32(*asked.Temperature) != p.Temperature:
		return p, refuse("temperature", *asked.Temperature, "rollout.temperature", p.Temperature)
	case asked.TopP != nil && float32(*asked.TopP) != p.TopP:
		return p, refuse("top_p", *asked.TopP, "rollout.top_p", p.TopP)
	case asked.TopK != nil && max(*asked.TopK, 0) != p.TopK:
		return p, refuse("top_k", *asked.TopK, "rollout.top_k", p.TopK)
	case asked.Seed != nil:
		return p, serve.Invalid("seed", "the draws of an episode have the seed of the run (trainer.seed): leave seed out, or set serve.override_sampling = true")
	}
	return p, nil
}

// take returns the context that a request continues, marked as busy, with the messages after
// the recorded ones and the ids to append. Without such a context it begins one.
func (s *Store) take(e *episode, r serve.SessionRequest) (c *record, next []data.Message, more []int32, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, old := range e.contexts {
		if old.busy {
			continue
		}
		if r.Messages != nil {
			if m, ok := old.continues(r.Messages); ok {
				c, next = old, m
				break
			}
		} else if n := len(old.ids); old.messages == nil && n < len(r.Prompt) && slices.Equal(old.ids, r.Prompt[:n]) {
			c, more = old, r.Prompt[n:]
			break
		}
	}
	switch {
	case c != nil && r.Messages != nil:
		more, err = s.o.Renderer.Next(c.stop == engine.StopEOS, c.ids[len(c.ids)-1], next)
	case c == nil && r.Messages != nil:
		more, err = s.o.Renderer.Start(r.Messages)
	case c == nil:
		more = r.Prompt
	}
	if err != nil {
		return nil, nil, nil, serve.Invalid("messages", "%v", err)
	}
	if c == nil {
		c = &record{}
		e.contexts = append(e.contexts, c)
	}
	c.busy = true
	return c, next, more, nil
}

// joined returns the contents of messages, separated by empty lines.
func joined(messages []data.Message) string {
	var parts []string
	for _, m := range messages {
		parts = append(parts, m.Content)
	}
	return strings.Join(parts, "\n\n")
}

// release makes a context available again, or removes it if it has no reply.
func (s *Store) release(e *episode, c *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.busy = false; len(c.turns) == 0 {
		e.contexts = slices.DeleteFunc(e.contexts, func(other *record) bool { return other == c })
	}
}

// sample appends ids to a context and samples a reply. After an error the engine has
// dropped the context, which stays as it was.
func (s *Store) sample(ctx context.Context, e *episode, c *record, more []int32, p engine.Params) (engine.Reply, error) {
	s.mu.Lock()
	session, turn := c.session, e.draws
	e.draws++
	s.mu.Unlock()
	if session == nil {
		var err error
		if session, err = s.open(ctx, engine.SessionOptions{Key: engine.Key{Seed: e.seed, Task: e.task.ID, Sample: e.sample}, MaxContext: s.o.MaxContext}); err != nil {
			return engine.Reply{}, err
		}
		more = slices.Concat(c.ids, more)
	}
	p.Turn = turn
	reply, err := s.o.Engine.Generate(ctx, session, more, p)
	if err == nil && len(reply.IDs) == 0 {
		err = fmt.Errorf("the engine returned an empty reply (%s)", reply.Stop)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.o.Engine.Close(session)
		c.session = nil
		return reply, err
	}
	c.session = session
	return reply, nil
}

// open opens a session. Contexts that wait for their agents count against the memory of
// the engine, so open closes them while it waits, the longest unused one first. A closed context is
// computed again when it continues.
func (s *Store) open(ctx context.Context, o engine.SessionOptions) (*engine.Session, error) {
	type result struct {
		session *engine.Session
		err     error
	}
	opened := make(chan result, 1)
	go func() { // ends with the Open, for which the loop below waits
		session, err := s.o.Engine.Open(ctx, o)
		opened <- result{session, err}
	}()
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case r := <-opened:
			return r.session, r.err
		case <-t.C:
			s.closeLongestUnused()
		}
	}
}

func (s *Store) closeLongestUnused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest *record
	for _, e := range s.episodes {
		for _, c := range e.contexts {
			if c.session != nil && !c.busy && (oldest == nil || c.used < oldest.used) {
				oldest = c
			}
		}
	}
	if oldest != nil {
		s.o.Engine.Close(oldest.session)
		oldest.session = nil
	}
}

// record appends a reply to its context. The caller has locked s.mu.
func (s *Store) record(e *episode, c *record, r serve.SessionRequest, next []data.Message, more []int32, reply engine.Reply, began time.Time) {
	if n := len(c.turns); n > 0 {
		c.turns[n-1].Observation = joined(next)
		s.observeTurn(e, &c.turns[n-1])
	}
	c.ids = append(c.ids, more...)
	c.mask = append(c.mask, make([]uint8, len(more))...)
	c.logProbs = append(c.logProbs, make([]float32, len(more))...)
	start := len(c.ids)
	c.ids = append(c.ids, reply.IDs...)
	c.mask = append(c.mask, slices.Repeat([]uint8{1}, len(reply.IDs))...)
	c.logProbs = append(c.logProbs, reply.LogProbs...)
	c.stop, c.version = reply.Stop, reply.Version
	s.clock++
	c.used = s.clock
	text := serve.Text(s.o.Tokenizer, reply, r.Stops)
	c.turns = append(c.turns, data.Turn{
		Start: start, End: len(c.ids), Text: text, Action: text, Parsed: true, Stop: string(reply.Stop), Kept: reply.Kept,
		GenMillis: float64(time.Since(began)) / float64(time.Millisecond), Prompt: slices.Clone(r.Messages),
	})
	if r.Messages != nil {
		c.messages = append(slices.Clone(r.Messages), data.Message{Role: "assistant", Content: text})
	}
	e.newest = c
	e.turns++
	if st := s.step; st != nil && st.o.Observer != nil && e.turns == 1 {
		st.o.Observer.Began(s.runningOf(e), joined(r.Messages))
	}
}

// observeTurn reports a turn that the agent has answered. The caller has locked s.mu.
func (s *Store) observeTurn(e *episode, t *data.Turn) {
	if st := s.step; st != nil && st.o.Observer != nil {
		st.o.Observer.Turn(s.runningOf(e), t)
	}
}
