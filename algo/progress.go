package algo

import (
	"context"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/data"
)

// Phase is a part of a run that Events are told of.
type Phase struct {
	Name string // as in timing_s/NAME, or PhaseSFT
	Step int    // that it is part of; 0: none
	// Steps is how many steps of this kind the run has.
	Steps int
	Of    string // what a validation plays, and when; "" elsewhere
	Total int    // units that Progress counts to: episodes or rows; 0: it is not called
}

// PhaseSFT is the phase of a step of supervised training.
const PhaseSFT = "sft"

// rowsTo reports the rows that are done under the context it returns as the
// progress of a phase.
func rowsTo(ctx context.Context, events Events) context.Context {
	done := 0
	return learner.CountRows(ctx, func(rows int) {
		done += rows
		events.Progress(done, "")
	})
}

// passes runs a phase that takes the model over rows, so many times.
func (t *Trainer) passes(ctx context.Context, step int, name string, rows []data.Row, times int, m Metrics, f func(ctx context.Context) error) error {
	return t.phase(step, name, times*len(rows), m, func() error { return f(rowsTo(ctx, t.events)) })
}
