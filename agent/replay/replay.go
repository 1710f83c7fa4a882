// Package replay plays recorded episodes again without any server: what a
// server said comes from the record, what the model said is forced, and all
// that follows from these is compared with what was recorded. With a model,
// the sampler says at every token what it would have drawn.
//
// It owns the comparison; it does not read files, and it opens no model: an
// engine comes from outside, over a backend whose Teacher is a Class. Episodes
// are played by one goroutine each.
package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/text"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// Setup is how episodes were played.
type Setup struct {
	// Agent's engine and renderer are nil where there is no model.
	Agent   agent.Setup
	Teacher *Teacher // the teacher of the engine's backend; nil without a model
	// Deterministic opens every session before the first reply is asked for,
	// as an engine with engine.Options.Deterministic needs it.
	Deterministic bool
	// ByText replays by what was said, without ids: an endpoint's episodes have
	// none. There is no model then.
	ByText bool
	Client env.Options // parser and action format
}

// Result is what the replay of one episode came to.
type Result struct {
	Difference *Difference // the first; nil: there is none
	Draws      int         // ids that the sampler was asked for
	NearTies   int         // of these, within Class.Margin of the recorded one and not it
	MaxGap     float64     // the largest difference of a log-prob
}

// Replayable says why an episode cannot be replayed, "" if it can.
func (s Setup) Replayable(e *data.Episode) string {
	switch {
	case !e.Outcome.Trainable():
		return "it failed for a reason outside of it"
	case len(e.Turns) == 0:
		return "it has no turn"
	case e.Replays > 0:
		return "it lost an instance and continued on another one, so its exchanges are those of two"
	case len(e.Tokens) == 0 && !s.ByText:
		return "its ids are not in the dump"
	case len(e.Tokens) > 0 && s.ByText:
		return "it has ids, and those of an endpoint have none"
	case len(e.Exchanges) == 0:
		return "its exchanges with the server are not in the dump"
	}
	return ""
}

// check finds what no comparison could live with.
func check(e *data.Episode) error {
	n := len(e.Tokens)
	if len(e.Mask) != n || len(e.LogProbs) != n {
		return fmt.Errorf("it has %d ids, %d entries of the mask and %d log-probs", n, len(e.Mask), len(e.LogProbs))
	}
	end := 0
	for i, t := range e.Turns {
		if t.Start < end || t.End < t.Start || t.End > n {
			return fmt.Errorf("turn %d spans the ids [%d, %d) of %d, after %d", i+1, t.Start, t.End, n, end)
		}
		end = t.End
	}
	return nil
}

// Episodes replays episodes that are replayable, all at once: a deterministic
// engine forms the batches of a wave if it is given just the wave. Its error
// is one of the replay itself.
func Episodes(ctx context.Context, s Setup, episodes []*data.Episode) ([]Result, error) {
	plays := make([]*play, len(episodes))
	defer func() {
		for _, p := range plays {
			if p != nil {
				p.close()
			}
		}
	}()
	for i, e := range episodes {
		if err := check(e); err != nil {
			return nil, fmt.Errorf("task %s, sample %d: %w", e.Task.ID, e.Sample, err)
		}
		plays[i] = newPlay(s, e)
		if err := plays[i].open(ctx); err != nil {
			return nil, fmt.Errorf("task %s, sample %d: %w", e.Task.ID, e.Sample, err)
		}
	}
	results, errs := make([]Result, len(plays)), make([]error, len(plays))
	var wg sync.WaitGroup
	for i, p := range plays {
		wg.Go(func() { results[i], errs[i] = p.run(ctx) })
	}
	wg.Wait()
	return results, errors.Join(errs...)
}

// play is the replay of one episode.
type play struct {
	Setup
	rec     *data.Episode
	found   findings
	reader  *reader
	server  *server
	session *engine.Session
	running bool // RunEpisode has the session, and closes it
}

func newPlay(s Setup, e *data.Episode) *play {
	p := &play{Setup: s, rec: e}
	p.reader = &reader{inner: s.Agent.Engine, ep: e, found: &p.found}
	p.server = &server{exchanges: append(slices.Clone(e.Created), e.Exchanges...), turn: &p.reader.turn, found: &p.found}
	a := &p.Agent
	a.Engine = p.reader
	a.Options.Instruction = e.Instruction
	if p.ByText {
		a.Engine, a.Renderer, a.NoIDs = p.reader.textEngine(), text.Renderer{}, true
	}
	if a.Renderer == nil {
		a.Renderer = recordedTemplate{p.reader, a.Options.MaxContext}
		a.Options.MaxObsTokens = 0 // nobody can count them
	}
	return p
}

func (p *play) start() agent.Start {
	return agent.Start{Task: p.rec.Task, UID: p.rec.UID, Sample: p.rec.Sample, Seed: p.rec.Seed, Attempt: p.rec.Attempts, Session: p.session}
}

// open takes the session beforehand; see engine.Options.Deterministic.
func (p *play) open(ctx context.Context) (err error) {
	if !p.withModel() {
		return nil
	}
	if err := p.Teacher.add(p.reader); err != nil {
		return err
	}
	if !p.Deterministic {
		return nil
	}
	p.session, err = p.reader.inner.Open(ctx, p.Agent.SessionOptions(p.start()))
	return err
}

func (p *play) close() {
	if p.session != nil && !p.running {
		p.reader.inner.Close(p.session)
	}
	if p.withModel() {
		p.Teacher.remove(p.reader)
	}
}

func (p *play) withModel() bool { return p.reader.inner != nil }

func (p *play) run(ctx context.Context) (Result, error) {
	o := p.Client
	o.BaseURL = baseURL
	o.Attempts, o.Backoff = len(p.server.exchanges)+1, time.Nanosecond // as often as it was tried then
	o.Client = &http.Client{Transport: p.server, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	client, err := p.Agent.Spec.New(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		p.found.add(Difference{Turn: 0, What: InReply, Recorded: "an instance was made", Replayed: err.Error()})
		if p.session != nil { // the others of a wave wait for everybody's next call
			p.reader.inner.Close(p.session)
			p.running = true
		}
		return p.result(nil), nil
	}
	start := p.start()
	start.Client = client
	p.running = true
	got, err := agent.RunEpisode(ctx, p.Agent, start)
	if err != nil {
		var broken *engine.BackendError
		switch {
		case ctx.Err() != nil:
			return Result{}, context.Cause(ctx)
		case errors.As(err, &broken), errors.Is(err, engine.ErrShutdown):
			return Result{}, err
		}
	}
	p.compare(got)
	return p.result(got), nil
}

func (p *play) result(got *data.Episode) Result {
	p.found.mu.Lock()
	defer p.found.mu.Unlock()
	r := Result{Difference: p.found.first, Draws: p.found.draws, NearTies: p.found.nearTies}
	if got != nil && p.withModel() {
		for i := range min(len(got.LogProbs), len(p.rec.LogProbs)) {
			r.MaxGap = max(r.MaxGap, math.Abs(float64(got.LogProbs[i])-float64(p.rec.LogProbs[i])))
		}
	}
	return r
}
