package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/data"
)

// Engine generates replies for many sessions at once. Every method may be
// called by many goroutines; calls for one session must not overlap.
type Engine interface {
	// Open starts a session. It waits for memory in the KV budget, or returns
	// ctx's error if ctx ends first.
	Open(ctx context.Context, o SessionOptions) (*Session, error)
	// Generate appends ids to the session's context, samples a reply and
	// appends the reply with its stop token.
	Generate(ctx context.Context, s *Session, ids []int32, p Params) (Reply, error)
	// Close frees the session's memory. A second Close has no effect.
	Close(s *Session)
}

// SessionOptions configure a session. Key is part of the key of every random
// draw, so that a draw does not depend on the rest of the batch.
type SessionOptions struct {
	Key        Key
	MaxContext int // maximum number of tokens in the context; Generate stops with StopContext at this length
}

// Key identifies a session across runs: the run's seed, the task and the sample.
type Key struct {
	Seed   uint64
	Task   string
	Sample int
}

// Params are the sampling parameters of one reply. A TopP of 0 means 1, a TopK
// of 0 means off.
type Params struct {
	MaxNew      int
	Temperature float32 // > 0; log-probs are computed from logits / Temperature
	Greedy      bool
	TopP        float32
	TopK        int
	StopTokens  []int32
	StopStrings []string // generation stops after the token that completes any of these strings
	Turn        int      // number of the turn; part of the key of every draw
	// Each, if not nil, receives every token of the reply as soon as it is sampled, in
	// order and exactly once, and is not called after Generate has returned. The Scheduler
	// calls it from its own goroutine while all sessions wait, so Each must not block and
	// must not call the engine.
	Each func(Token)
	// Top is the number of most probable tokens that Each receives with every token.
	// 0 means none. Top needs Each.
	Top int
}

// Token is one sampled token of a reply.
type Token struct {
	ID      int32
	LogProb float32
	Top     []Candidate // the Params.Top most probable tokens, or fewer if top-k and top-p keep fewer
}

// Candidate is a token that could have been drawn. LogProb is its log-prob under
// the temperature, top-k and top-p of sampling.
type Candidate struct {
	ID      int32
	LogProb float32
}

// StopReason is the reason why a reply ended.
type StopReason string

// The stop reasons. StopEOS means that a stop token was sampled; it is in IDs.
const (
	StopEOS     StopReason = "eos"
	StopString  StopReason = "stop_string"
	StopLength  StopReason = "length"
	StopContext StopReason = "context"
)

// Reply is one generated reply. IDs and LogProbs have equal lengths.
type Reply struct {
	IDs      []int32
	LogProbs []float32 // log p under the temperature, top-k and top-p of sampling
	// Kept[i] lists the tokens that top-k and top-p kept for IDs[i]. Kept is
	// nil if both are off or the engine does not report them.
	Kept    []data.TokenSet
	Stop    StopReason
	Version int64 // version of the weights that produced the last token
	Behind  int64 // number of versions by which the weights of the first token are older
}

// Session is one growing context inside an Engine. Its state belongs to the
// engine that opened it.
type Session struct {
	options SessionOptions
	state   any
}

// NewSession returns a session with the state of an Engine implementation.
func NewSession(o SessionOptions, state any) *Session {
	return &Session{options: o, state: state}
}

// Options returns the options passed to Open.
func (s *Session) Options() SessionOptions { return s.options }

// State returns the state passed to NewSession.
func (s *Session) State() any { return s.state }

// Errors that callers distinguish.
var (
	// ErrShutdown is returned by calls during or after Shutdown.
	ErrShutdown = errors.New("the engine is shut down")
	// ErrSessionClosed is returned by Generate on a closed session.
	ErrSessionClosed = errors.New("the session is closed")
	// ErrSessionBroken is returned by Generate on a session whose last
	// Generate failed or was cancelled. Such a session can only be closed.
	ErrSessionBroken = errors.New("the session's last reply failed or was cancelled; close it and open another")
	// ErrTooLarge is returned by Open if MaxContext exceeds the KV budget.
	ErrTooLarge = errors.New("the session is larger than the KV budget")
)

// BackendError is returned by Generate if the backend failed on a batch that
// contained the session. The scheduler continues with the other sessions.
type BackendError struct {
	Step int64 // number of the step, from 1
	Rows int   // sequences in the batch
	Err  error
}

// Error returns a message with the step and the cause.
func (e *BackendError) Error() string {
	return fmt.Sprintf("engine step %d (%d sequences): %v", e.Step, e.Rows, e.Err)
}

// Unwrap returns the cause.
func (e *BackendError) Unwrap() error { return e.Err }
