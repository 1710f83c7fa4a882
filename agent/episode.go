// Package agent plays one episode: a language model's turns against one
// environment instance, token by token.
//
// It owns the loop (RunEpisode), the prompt formats that say how a model
// writes an action and how it is read back, what a model is told first, and
// how an episode ends. It does not own generation (agent/llm/engine), environments
// (env), chat templates (agent/llm/chat, behind Renderer), or who plays which
// episode when (agent/rollout).
//
// Concurrency: RunEpisode runs in the caller's goroutine and starts none.
// Formats are stateless and may be used by many goroutines; so must a
// Renderer be.
package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// Setup is what the episodes of one environment have in common.
type Setup struct {
	Engine   engine.Engine
	Renderer Renderer
	Format   Format
	Spec     env.Spec
	Options  Options
	// NoIDs says that the engine's ids are no model's (agent/text), so that
	// episodes are kept without them.
	NoIDs bool
}

// Start is what one episode begins with.
type Start struct {
	Task    data.Task
	UID     string // group key
	Sample  int    // 0..group_size-1
	Seed    uint64 // of the episode's draws
	Attempt int    // from 1
	Client  env.Client
	// Replace, if it is not nil, gives another instance for one that was lost by
	// an error, and ends that one; nil without an error means that there is
	// none to be had. Client is the first.
	Replace func(ctx context.Context, lost error) (env.Client, error)
	// OnReset, if it is not nil, is told the first observation before the model is
	// asked anything. Its error ends the episode there.
	OnReset func(ctx context.Context, first string) error
	// Replays is the most instances in a row that may be lost at one point of
	// the episode, its reset or one of its turns, and be replaced by Another;
	// a hundred times as many in all.
	Replays int
	// Session, if it is not nil, is a session that was opened beforehand; see
	// engine.Options.Deterministic. RunEpisode closes it.
	Session *engine.Session
}

// SessionOptions are those of the episode's session.
func (s Setup) SessionOptions(start Start) engine.SessionOptions {
	return engine.SessionOptions{
		Key:        engine.Key{Seed: start.Seed, Task: start.Task.ID, Sample: start.Sample},
		MaxContext: s.Options.MaxContext,
	}
}

// ErrTimeLimit, as the cause of a context's end, says that the episode took too
// long. It then fails in the environment or the engine, whichever it was
// waiting for, and is not counted as cancelled.
var ErrTimeLimit = errors.New("the episode's time limit was reached")

// RunEpisode plays one episode (OpenManus-RL's _run_single_rollout, as spec
// 3.7 wants it): reset, then generate, parse, step, append the observation,
// until something ends it. It always returns an episode, with the outcome; the
// error, whose text is in the episode too, is what kept the model from ending
// it.
//
// The ids of a turn are appended to the ids before it and never made again
// from text; the mask is 1 exactly on the sampled ids. Under a Prompting
// format every turn is a context of its own, exact in the same way, and
// Contexts says where each begins. The observation that
// comes with the end of an episode is in its Turn but was never shown to the
// model, so it is in neither Tokens nor Messages.
func RunEpisode(ctx context.Context, setup Setup, start Start) (*data.Episode, error) {
	began := time.Now()
	p := &player{
		Setup:   setup,
		client:  start.Client,
		replace: start.Replace,
		onReset: start.OnReset,
		lost:    lostInstances{limit: start.Replays},
		session: start.Session,
		ep: &data.Episode{
			Task: start.Task, UID: start.UID, Sample: start.Sample, Seed: start.Seed, Attempts: start.Attempt,
			Cumulative: setup.Spec.Cumulative,
		},
	}
	defer func() {
		if p.session != nil {
			p.Engine.Close(p.session)
		}
	}()
	outcome, err := p.play(ctx, start)
	if err != nil {
		switch {
		case errors.Is(context.Cause(ctx), ErrTimeLimit):
			err = fmt.Errorf("%w: %w", ErrTimeLimit, err)
		case ctx.Err() != nil:
			outcome = data.Cancelled
		}
		p.ep.Err = err.Error()
	} else if p.answered > 0 && p.Spec.Success(p.ep.Reward) {
		// AgentGym counts the last step's reward, also of an episode that was
		// cut off: some environments score before they are done.
		outcome = data.Success
	}
	p.ep.Outcome = outcome
	if p.NoIDs {
		p.ep.ForgetIDs()
	}
	p.ep.Millis = millis(began)
	return p.ep, err
}

// player is the state of one episode.
type player struct {
	Setup
	client       env.Client
	replace      func(ctx context.Context, lost error) (env.Client, error)
	onReset      func(ctx context.Context, first string) error
	lost         lostInstances // of instances
	started      bool          // the task has been reset
	answered     int           // turns that the environment has judged
	session      *engine.Session
	ep           *data.Episode
	unparsed     int // replies without an action in a row
	contextStart int // of the context in the episode's tokens

	// Of a Prompting format.
	prompter   Prompter // nil: the context only grows
	state      PromptState
	lastPrompt []data.Message // the newest prompt
}

// play returns how the episode ended, with an error where that was not the
// model's doing.
func (p *player) play(ctx context.Context, start Start) (data.Outcome, error) {
	if err := p.reset(ctx, start.Task); err != nil {
		return data.EnvError, err
	}
	ids, err := p.firstIDs(ctx, start)
	if err != nil {
		return data.EngineError, err
	}
	if p.session == nil {
		if p.session, err = p.Engine.Open(ctx, p.SessionOptions(start)); err != nil {
			return data.EngineError, err
		}
	}
	if err := p.checkPromptLength(ids, start); err != nil {
		if p.Options.FilterOverlong {
			return data.OverlongPrompt, err
		}
		return data.ContextLimit, err
	}
	for turn := 0; ; turn++ {
		if len(p.ep.Tokens)-p.contextStart+len(ids) >= p.Options.MaxContext {
			return data.ContextLimit, nil
		}
		p.appendPrompt(ids)
		reply, err := p.generate(ctx, ids, turn)
		if err != nil {
			return data.EngineError, err
		}
		if reply.Stop == engine.StopContext {
			return data.ContextLimit, nil // the reply is not whole: it is not sent
		}
		t := &p.ep.Turns[turn]
		parsed, err := p.step(ctx, t)
		if err != nil {
			return data.EnvError, err
		}
		if outcome := p.ended(t, parsed); outcome != "" {
			return outcome, nil
		}
		if p.prompter != nil {
			ids, err = p.restartContext(ctx, t)
		} else {
			ids, err = p.observe(t, reply)
		}
		if err != nil {
			return data.EngineError, err
		}
	}
}

// render gives the ids of the messages that a context begins with.
func (p *player) render(messages []data.Message) ([]int32, error) {
	ids, err := p.Renderer.Start(messages)
	if err != nil {
		return nil, fmt.Errorf("render the messages before turn %d: %w", len(p.ep.Turns)+1, err)
	}
	return ids, nil
}

// Renderer turns messages into token ids with a model's chat template. A
// conversation only ever grows at its end: ids once given are never changed.
type Renderer interface {
	// Start renders the first messages and what asks for the first reply.
	Start(messages []data.Message) ([]int32, error)
	// Next renders what comes between a reply and the next one: the end of
	// the reply's turn, as far as the reply did not bring it itself, the
	// messages, and what asks for a reply. stoppedByEOS says that the reply
	// ended with a stop token, lastID, the last id of the reply.
	Next(stoppedByEOS bool, lastID int32, messages []data.Message) ([]int32, error)
	// StopTokens are the ids that end a reply.
	StopTokens() []int32
	// Decode is the text of ids.
	Decode(ids []int32) string
}
