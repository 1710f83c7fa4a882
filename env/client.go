package env

import (
	"context"

	"github.com/openmanus/openmanus/data"
)

// Client is one environment instance on a server. It plays one episode at a
// time, is reused through Reset, and must be used by one goroutine at a time.
type Client interface {
	// Reset starts task index and returns the text the model sees first,
	// without the instruction (see Spec.Instruction).
	Reset(ctx context.Context, index int) (Obs, error)
	// Step takes the model's text, cuts the action out of it with the
	// environment's own parser, and sends it. A step that was sent is never
	// sent again.
	Step(ctx context.Context, text string) (StepResult, error)
	// Close gives the instance back to the server where it can take it.
	Close(ctx context.Context) error
}

// Obs is what Reset returns.
type Obs struct {
	Text string
}

// StepResult is what the environment made of one model text.
type StepResult struct {
	Observation string
	Reward      float64 // as the environment hands it on: see Spec for its range and meaning
	Done        bool
	Action      string // the action text that was sent, "" if none was
	Sent        bool   // false if the parser refused the text and no request was made
}

// Recorder receives every HTTP exchange of a client in order. It is called by
// the goroutine that uses the client.
type Recorder func(data.Exchange)
