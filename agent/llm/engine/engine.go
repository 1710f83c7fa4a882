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
	// Open starts a session. It waits while the KV budget has no room and
	// returns ctx's error if that ends first.
	Open(ctx context.Context, o SessionOptions) (*Session, error)
	// Generate appends ids to the session's context and samples a reply,
	// which becomes part of the context too (its stop token included).
	Generate(ctx context.Context, s *Session, ids []int32, p Params) (Reply, error)
	// Close frees the session's memory. Closing twice is harmless.
	Close(s *Session)
}

// SessionOptions name a session. Key's fields are part of the key of every
// random draw, so that a draw depends on nothing else in the batch.
type SessionOptions struct {
	Key        Key
	MaxContext int // tokens the session may hold; Generate stops with StopContext there
}

// Key identifies a session across runs: the run's seed, the task and the sample.
type Key struct {
	Seed   uint64
	Task   string
	Sample int
}

// Params say how one reply is sampled. The zero value of TopP means 1 and of
// TopK means off.
type Params struct {
	MaxNew      int
	Temperature float32 // > 0; log-probs are those of logits / Temperature
	Greedy      bool
	TopP        float32
	TopK        int
	StopTokens  []int32
	StopStrings []string // generation stops after the token that completes one of them
	Turn        int      // part of the key of every draw
}

// StopReason says why a reply ended.
type StopReason string

// The stop reasons. StopEOS: a stop token was sampled (it is in IDs).
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
	// Kept are the tokens that top-k and top-p left, for each of IDs; nil where
	// neither is on, or the engine does not know.
	Kept    []data.TokenSet
	Stop    StopReason
	Version int64 // of the weights that produced the last token
}

// Session is one growing context inside an Engine. Its state belongs to the
// engine that opened it.
type Session struct {
	options SessionOptions
	state   any
}

// NewSession is for implementations of Engine: it makes a session that carries
// the implementation's own state.
func NewSession(o SessionOptions, state any) *Session {
	return &Session{options: o, state: state}
}

// Options returns what the session was opened with.
func (s *Session) Options() SessionOptions { return s.options }

// State returns what NewSession was given.
func (s *Session) State() any { return s.state }

// Errors that callers tell apart.
var (
	// ErrShutdown is returned by calls on a scheduler that was shut down.
	ErrShutdown = errors.New("the engine is shut down")
	// ErrSessionClosed is returned by Generate on a closed session.
	ErrSessionClosed = errors.New("the session is closed")
	// ErrSessionBroken is returned by Generate on a session whose last
	// Generate failed or was cancelled. Such a session can only be closed.
	ErrSessionBroken = errors.New("the session's last reply failed or was cancelled; close it and open another")
	// ErrTooLarge is returned by Open for a session that could never fit.
	ErrTooLarge = errors.New("the session is larger than the KV budget")
)

// BackendError is what Generate returns when the backend failed on a batch
// that held the session. The scheduler itself goes on.
type BackendError struct {
	Step int64 // number of the step, from 1
	Rows int   // sequences in the batch
	Err  error
}

// Error names the step and the cause.
func (e *BackendError) Error() string {
	return fmt.Sprintf("engine step %d (%d sequences): %v", e.Step, e.Rows, e.Err)
}

// Unwrap returns the cause.
func (e *BackendError) Unwrap() error { return e.Err }
