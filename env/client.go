package env

import (
	"context"

	"github.com/openmanus/openmanus/data"
)

// Client is one environment instance on a server. It plays one episode at a
// time, is reused through Reset, and is used by one goroutine at a time.
type Client interface {
	// Reset starts the task with the given index and returns the first
	// observation, without the instruction (see Spec.Instruction).
	Reset(ctx context.Context, index int) (Obs, error)
	// Step reads the action out of the model's reply with the environment's parser
	// and sends it. A step that was sent is never sent again.
	Step(ctx context.Context, reply string) (StepResult, error)
	// Close closes the instance on the server, if the server supports it.
	Close(ctx context.Context) error
}

// Obs is the result of Reset.
type Obs struct {
	Text string
}

// StepResult is the environment's answer to one reply of the model.
type StepResult struct {
	Observation string
	Reward      float64 // see Spec for its meaning
	Done        bool
	Action      string // the text of the action that was sent, "" if none was sent
	Sent        bool   // false if the parser rejected the reply and no request was made
}

// Recorder receives every HTTP exchange of a client, in order. It is called by
// the goroutine that uses the client.
type Recorder func(data.Exchange)

// Recaller is a Client that can request the result of a step whose reply was lost. It
// may repeat this request, but not the step.
type Recaller interface {
	// Recall returns the result of the last step, which failed. ok is false if the
	// result is unknown: the server shows the same observation as before (the step was not
	// executed, changed nothing visible, or is still running), or the task has ended
	// and the server shows nothing.
	Recall(ctx context.Context) (res StepResult, ok bool, err error)
}

// Identifier is a Client that can check, before the first reset, whether its server
// belongs to the client's environment.
type Identifier interface {
	// Identify returns an OtherEnvError if the server belongs to another environment,
	// or the error of a failed call.
	Identify(ctx context.Context) error
}
