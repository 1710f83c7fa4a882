package algo

import (
	"context"

	"github.com/openmanus/openmanus/data"
)

// A Method implements the training step: PolicyGradient, Evol, Recorded or Supervised.
// The loop calls Collect, Learn and Finish for every step, in this order, and records
// the step as done only after Finish. Metrics go to m, which becomes the line of the
// step.
type Method interface {
	// Steps returns the number of training steps of the run.
	Steps() int
	// Restore reads the method's own state from the state of the run and from the
	// files of a checkpoint folder.
	Restore(dir string) error
	// Begin prepares the first step. It is called at the start of every process until
	// Begin has set State.Begun.
	Begin(ctx, soft context.Context, t *Trainer) error
	// Collect plays or reads the data of the step.
	Collect(ctx context.Context, step int, m Metrics) (Batch, error)
	// Learn updates the weights.
	Learn(ctx context.Context, step int, b Batch, m Metrics) error
	// Finish makes the step part of the method's state, which the next checkpoint
	// holds. seconds is the time that Collect and Learn took.
	Finish(step int, b Batch, seconds float64, m Metrics) error
	// Check returns an error that ends the run after the step has been reported.
	Check(step int) error
	// Save writes the method's own files to a checkpoint folder.
	Save(dir string) error
}

// Batch is the data of a step. The loop writes its episodes to the run folder before the
// update.
type Batch struct {
	Episodes []*data.Episode // played or recorded episodes; nil: the method has only rows
	Rows     []data.Row
	drawn    *data.MixtureState // position in the order of tasks after the batch; nil: the current position
}

// MethodOptions make a Method.
type MethodOptions interface {
	open(c *core) (Method, error)
}
