// Package agent plays one episode: a language model's turns against one
// environment instance, token by token.
//
// It contains the loop (RunEpisode), the prompt formats, which define how a
// model writes an action and how the action is parsed, the instruction, and the
// conditions that end an episode. Generation belongs to agent/llm/engine,
// environments to env, chat templates to agent/llm/chat (behind Renderer), and
// the scheduling of episodes to agent/rollout.
//
// Concurrency: RunEpisode runs in the caller's goroutine and starts none.
// Formats and Renderers are stateless and may be used by many goroutines.
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

// Setup holds the settings shared by the episodes of one environment.
type Setup struct {
	Engine   engine.Engine
	Renderer Renderer
	Format   Format
	Spec     env.Spec
	Options  Options
	// NoIDs is true if the engine's ids are not token ids of a model (agent/text).
	// Episodes are then returned without ids.
	NoIDs bool
}

// Start holds the settings of one episode.
type Start struct {
	Task    data.Task
	UID     string // group key
	Sample  int    // 0..group_size-1
	Seed    uint64 // seed of the episode's sampling
	Attempt int    // number of the attempt, from 1
	Client  env.Client
	// Replace, if not nil, releases the instance that was lost by an error and
	// returns another one, or nil if none is available. Client is the first instance.
	Replace func(ctx context.Context, lost error) (env.Client, error)
	// OnReset, if not nil, is called with the first observation before the model
	// generates anything. Its error ends the episode.
	OnReset func(ctx context.Context, first string) error
	// OnTurn, if not nil, is called with every turn that the environment has answered.
	// The turn is valid until OnTurn returns.
	OnTurn func(*data.Turn)
	// Replays is the number of instances in a row that may be lost and replaced at
	// one point of the episode: the reset or a turn. The episode as a whole may
	// lose a hundred times as many.
	Replays int
	// Session, if not nil, is a session opened in advance, as
	// engine.Options.Deterministic requires. RunEpisode closes it.
	Session *engine.Session
}

// SessionOptions returns the options of the episode's session.
func (s Setup) SessionOptions(start Start) engine.SessionOptions {
	return engine.SessionOptions{
		Key:        engine.Key{Seed: start.Seed, Task: start.Task.ID, Sample: start.Sample},
		MaxContext: s.Options.MaxContext,
	}
}

// ErrTimeLimit is the cause of a context that ended because the episode took too
// long. The episode then fails with an environment error or an engine error,
// depending on the call in progress, and is not counted as cancelled.
var ErrTimeLimit = errors.New("the episode's time limit was reached")

// RunEpisode plays one episode (OpenManus-RL's _run_single_rollout, spec 3.7):
// it resets the task, then generates, parses, steps and appends the observation
// until the episode ends. It always returns an episode with its outcome. The
// error reports a failure outside the model; Episode.Err has its text.
//
// The ids of a turn are appended to the ids before it and never re-encoded from
// text. The mask is 1 exactly on the sampled ids. Under a Prompting format every
// turn is a separate context, and Contexts holds the start of each. The last
// observation of an episode is in its Turn but in neither Tokens nor Messages,
// because the model never receives it.
func RunEpisode(ctx context.Context, setup Setup, start Start) (*data.Episode, error) {
	began := time.Now()
	p := &player{Setup: setup, Start: start, lost: lostInstances{limit: start.Replays}, ep: &data.Episode{
		Task: start.Task, UID: start.UID, Sample: start.Sample, Seed: start.Seed, Attempts: start.Attempt,
		Cumulative: setup.Spec.Cumulative,
	}}
	defer func() {
		if p.Session != nil {
			p.Engine.Close(p.Session)
		}
	}()
	outcome, err := p.play(ctx)
	if err != nil {
		switch {
		case errors.Is(context.Cause(ctx), ErrTimeLimit):
			err = fmt.Errorf("%w: %w", ErrTimeLimit, err)
		case ctx.Err() != nil:
			outcome = data.Cancelled
		}
		p.ep.Err = err.Error()
	} else if p.answered > 0 && p.Spec.Success(p.ep.Reward) {
		// AgentGym counts the last step's reward even if the episode reached a
		// limit: some environments score before they are done.
		outcome = data.Success
	}
	p.ep.Outcome = outcome
	if p.NoIDs {
		p.ep.ForgetIDs()
	}
	p.ep.Millis = millis(began)
	return p.ep, err
}

// player is the state of one episode. Client and Session are the current instance and session.
type player struct {
	Setup
	Start
	lost         lostInstances
	started      bool // the task has been reset
	answered     int  // turns that the environment has answered
	ep           *data.Episode
	unparsed     int // consecutive replies without an action
	contextStart int // index of the context's first token in the episode

	// The state of a Prompting format.
	prompter   Prompter // nil: the context only grows
	state      PromptState
	lastPrompt []data.Message // the newest prompt
}

// play returns the outcome of the episode, with an error if a failure outside
// the model ended it.
func (p *player) play(ctx context.Context) (data.Outcome, error) {
	if err := p.reset(ctx); err != nil {
		return data.EnvError, err
	}
	ids, err := p.firstIDs(ctx)
	if err != nil {
		return data.EngineError, err
	}
	if p.Session == nil {
		if p.Session, err = p.Engine.Open(ctx, p.SessionOptions(p.Start)); err != nil {
			return data.EngineError, err
		}
	}
	if err := p.checkPromptLength(ids); err != nil {
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
			return data.ContextLimit, nil // the reply is incomplete and is not sent
		}
		t := &p.ep.Turns[turn]
		parsed, err := p.step(ctx, t)
		if err != nil {
			return data.EnvError, err
		}
		if p.OnTurn != nil {
			p.OnTurn(t)
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

// render returns the ids of the messages at the start of a context.
func (p *player) render(messages []data.Message) ([]int32, error) {
	ids, err := p.Renderer.Start(messages)
	if err != nil {
		return nil, fmt.Errorf("render the messages before turn %d: %w", len(p.ep.Turns)+1, err)
	}
	return ids, nil
}

// Renderer turns messages into token ids with a model's chat template. Ids are
// only appended to a conversation and never changed.
type Renderer interface {
	// Start returns the ids of the first messages and the generation prompt.
	Start(messages []data.Message) ([]int32, error)
	// Next returns the ids between a reply and the next one: the end of the reply's
	// turn (unless the reply contains it), the messages and the generation prompt.
	// lastID is the last id of the reply; stoppedByEOS reports whether lastID is a
	// stop token.
	Next(stoppedByEOS bool, lastID int32, messages []data.Message) ([]int32, error)
	// StopTokens returns the ids that end a reply.
	StopTokens() []int32
	// Decode returns the text of ids.
	Decode(ids []int32) string
}
