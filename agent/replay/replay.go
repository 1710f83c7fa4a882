// Package replay plays recorded episodes again without a server: the servers'
// replies come from the record, the model's tokens are forced, and everything
// derived from them is compared with the record. With a model, the sampler
// reports at every position the token that it would have drawn.
//
// It contains the comparison. It reads no files and opens no model: the caller
// provides an engine over a backend whose engine.Teacher is a Teacher of this
// package. Every episode is played in a separate goroutine.
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

// Setup holds the settings under which the episodes were played.
type Setup struct {
	// Without a model, the engine and the renderer in Agent are nil.
	Agent   agent.Setup
	Teacher *Teacher // the teacher of the engine's backend; nil without a model
	// Deterministic opens all sessions before the first reply, as required by an
	// engine with engine.Options.Deterministic.
	Deterministic bool
	// ByText replays episodes of an endpoint, which have texts but no ids. It cannot
	// be combined with a model.
	ByText bool
	Client env.Options // parser and action format
}

// Result is the result of replaying one episode.
type Result struct {
	Difference *Difference // the first difference; nil if there is none
	Draws      int         // sampled positions
	NearTies   int         // positions where the drawn token differs from the recorded one by less than Teacher.Margin
	MaxGap     float64     // the largest difference between log-probs
}

// Replayable returns the reason why an episode cannot be replayed, "" if it can.
func (s Setup) Replayable(e *data.Episode) string {
	switch {
	case !e.Outcome.Trainable():
		return "it failed because of a server or the engine"
	case len(e.Turns) == 0:
		return "it has no turns"
	case e.Replays > 0:
		return "it lost an instance and continued on another one, so its exchanges belong to two instances"
	case len(e.Tokens) == 0 && !s.ByText:
		return "its ids are not in the dump"
	case len(e.Tokens) > 0 && s.ByText:
		return "it has ids, but episodes of an endpoint have none"
	case len(e.Exchanges) == 0 && !s.Agent.Spec.Prompts:
		return "its exchanges with the server are not in the dump"
	}
	return ""
}

// check returns an error if the record is inconsistent.
func check(e *data.Episode) error {
	n := len(e.Tokens)
	if len(e.Mask) != n || len(e.LogProbs) != n {
		return fmt.Errorf("%d ids, but %d mask entries and %d log-probs", n, len(e.Mask), len(e.LogProbs))
	}
	end := 0
	for i, t := range e.Turns {
		if t.Start < end || t.End < t.Start || t.End > n {
			return fmt.Errorf("turn %d has the ids [%d, %d), which are not within [%d, %d)", i+1, t.Start, t.End, end, n)
		}
		end = t.End
	}
	return nil
}

// Episodes replays replayable episodes concurrently. If the episodes are
// exactly one recorded wave, a deterministic engine forms the recorded batches.
// An error means that the replay itself failed; differences are in the results.
func Episodes(ctx context.Context, s Setup, episodes []*data.Episode) ([]Result, error) {
	var plays []*play
	defer func() {
		for _, p := range plays {
			p.close()
		}
	}()
	for _, e := range episodes {
		p := newPlay(s, e)
		plays = append(plays, p)
		if err := errors.Join(check(e), p.open(ctx)); err != nil {
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
	session *engine.Session // opened in advance; nil after it is passed to RunEpisode
}

func newPlay(s Setup, e *data.Episode) *play {
	p := &play{Setup: s, rec: e}
	p.reader = &reader{inner: s.Agent.Engine, ep: e, found: &p.found}
	p.server = &server{exchanges: append(slices.Clone(e.Created), e.Exchanges...), turn: &p.reader.turn, found: &p.found}
	a := &p.Agent
	a.Engine = p.reader
	a.Options.Instruction = e.Instruction
	if a.Spec.Prompts {
		p.recallPrompt()
	}
	if p.ByText {
		a.Engine, a.Renderer, a.NoIDs = &text.Engine{Speaker: speaker{p.reader}}, text.Renderer{}, true
	}
	if a.Renderer == nil {
		a.Renderer = recordedTemplate{p.reader, a.Options.MaxContext}
		a.Options.MaxObsTokens = 0 // tokens cannot be counted without a tokenizer
	}
	return p
}

// recallPrompt takes the prompt of a prompt task from the recorded messages, and the
// score from the record: the dump has no ground truth to score the reply with.
func (p *play) recallPrompt() {
	rec := *p.rec
	for _, m := range rec.Messages {
		if m.Role == "assistant" {
			break
		}
		rec.Task.Prompt = append(rec.Task.Prompt, m)
	}
	if n := len(rec.Task.Prompt); n > 0 {
		rec.Task.Prompt[n-1].Content = rec.FirstObservation
	}
	p.rec = &rec
	spec := p.Agent.Spec
	p.Agent.Spec = env.Prompts(spec.Name, spec.SuccessReward, func(context.Context, data.Task, string) (float64, error) {
		return rec.Turns[0].Reward, nil
	})
}

func (p *play) start() agent.Start {
	return agent.Start{Task: p.rec.Task, UID: p.rec.UID, Sample: p.rec.Sample, Seed: p.rec.Seed, Attempt: p.rec.Attempts, Session: p.session}
}

// open opens the session in advance; see engine.Options.Deterministic.
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
	if p.session != nil {
		p.reader.inner.Close(p.session)
		p.session = nil
	}
	if p.withModel() {
		p.Teacher.remove(p.reader)
	}
}

func (p *play) withModel() bool { return p.reader.inner != nil }

func (p *play) run(ctx context.Context) (Result, error) {
	o := p.Client
	o.BaseURL = baseURL
	o.Attempts, o.Backoff = len(p.server.exchanges)+1, time.Nanosecond // enough attempts for all recorded retries
	o.Client = &http.Client{Transport: p.server, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	client, err := p.Agent.Spec.New(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		p.found.add(Difference{Turn: 0, What: InReply, Recorded: "an instance was made", Replayed: err.Error()})
		p.close() // an open session would block the other episodes of its wave
		return p.result(nil), nil
	}
	start := p.start()
	start.Client = client
	p.session = nil
	got, err := agent.RunEpisode(ctx, p.Agent, start)
	if err != nil {
		_, broken := errors.AsType[*engine.BackendError](err)
		switch {
		case ctx.Err() != nil:
			return Result{}, context.Cause(ctx)
		case broken, errors.Is(err, engine.ErrShutdown):
			return Result{}, err
		}
	}
	p.compare(got)
	return p.result(got), nil
}

func (p *play) result(got *data.Episode) Result {
	p.found.mu.Lock()
	defer p.found.mu.Unlock()
	r := Result{Difference: p.found.first, Draws: int(p.found.draws.Load()), NearTies: int(p.found.nearTies.Load())}
	if got != nil && p.withModel() {
		for i := range min(len(got.LogProbs), len(p.rec.LogProbs)) {
			r.MaxGap = max(r.MaxGap, math.Abs(float64(got.LogProbs[i])-float64(p.rec.LogProbs[i])))
		}
	}
	return r
}
