package algo

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// ErrInterrupted is returned by Fit when it stopped early because it was asked
// to. Every finished step is saved; a warm start begins anew.
var ErrInterrupted = errors.New("interrupted; the same command goes on from the last checkpoint")

// Fit runs the whole training: the warm start, validation before, the steps
// that are left, validation and a checkpoint at the end. When soft ends it
// finishes the step, saves and returns ErrInterrupted; when ctx ends it stops
// where it is. After any other failure the last finished step is saved first,
// unless the failure was in the update: its weights belong to no step.
func (t *Trainer) Fit(ctx, soft context.Context) (err error) {
	defer func() {
		if err == nil || ctx.Err() != nil || t.torn || t.saved == t.state.Step || !t.state.WarmStarted {
			return
		}
		if saveErr := t.SaveCheckpoint(ctx); saveErr != nil {
			err = errors.Join(err, fmt.Errorf("saving step %d after that: %w", t.state.Step, saveErr))
		}
	}()
	if !t.state.WarmStarted {
		if err := t.begin(ctx, soft); err != nil {
			return err
		}
	}
	for t.state.Step < t.o.Steps {
		if soft.Err() != nil {
			return ErrInterrupted
		}
		step := t.state.Step + 1
		if err := t.step(ctx); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		last := t.state.Step == t.o.Steps
		if !last && t.o.SaveEvery > 0 && t.state.Step%t.o.SaveEvery == 0 {
			if err := t.SaveCheckpoint(ctx); err != nil {
				return err
			}
		}
	}
	t.state.Finished = true
	return t.SaveCheckpoint(ctx)
}

// begin does what comes before the first step: supervised epochs and the
// validations around them. It ends with a checkpoint, so that a run that is
// killed later never repeats it.
func (t *Trainer) begin(ctx, soft context.Context) error {
	m := Metrics{}
	if t.o.WarmStart != nil {
		if t.o.ValUntrained {
			v, err := t.Validate(ctx, LabelUntrained)
			if err != nil {
				return err
			}
			for name, x := range v.Metrics {
				m["untrained/"+name] = x
			}
			if err := t.write(0, m); err != nil {
				return err
			}
		}
		if err := t.warmStart(ctx, soft); err != nil {
			return err
		}
		t.newWeights()
		if t.ref != nil {
			if err := t.freezeReference(ctx); err != nil {
				return err
			}
		}
	}
	if t.o.ValBeforeTrain {
		v, err := t.Validate(ctx, LabelBefore)
		if err != nil {
			return err
		}
		if err := t.write(0, v.Metrics); err != nil {
			return err
		}
	}
	t.state.WarmStarted = true
	return t.SaveCheckpoint(ctx)
}

// newWeights tells the sampler that what it cached is stale.
func (t *Trainer) newWeights() {
	t.state.WeightVersion++
	if t.updated != nil {
		t.updated(t.state.WeightVersion)
	}
}

// write appends a line to the metrics.
func (t *Trainer) write(step int, m Metrics) error {
	if err := t.sink.Write(step, m); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// IsDiskError reports whether err came from writing the run folder.
func IsDiskError(err error) bool {
	var pe *os.PathError
	var le *os.LinkError
	return errors.As(err, &pe) || errors.As(err, &le)
}
