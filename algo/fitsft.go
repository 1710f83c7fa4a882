package algo

import (
	"context"
	"errors"
	"maps"
)

// FitSFT is supervised training as a run of its own: the steps of the warm
// start are the run's steps, with checkpoints and validations at the same
// cadence as Fit, and a killed run goes on inside an epoch.
func (t *Trainer) FitSFT(ctx, soft context.Context) (err error) {
	o := t.o.WarmStart
	if o == nil {
		return errors.New("supervised training needs trajectories")
	}
	if t.state.Finished {
		return nil
	}
	steps := o.Steps()
	defer func() {
		if err != nil && ctx.Err() == nil && t.saved != t.state.Step && t.state.Step > 0 {
			err = errors.Join(err, t.SaveCheckpoint(ctx))
		}
	}()
	if t.state.Step == 0 && t.o.ValBeforeTrain {
		if err := t.validateAndWrite(ctx, LabelBefore, Metrics{}); err != nil {
			return err
		}
	}
	err = TrainSFT(ctx, soft, t.actor, *o, t.state.Step, func(step, _ int, m Metrics) error {
		t.state.Step = step
		t.newWeights()
		t.events.Step(0, steps, m)
		if step == steps {
			return t.validateAndWrite(ctx, LabelAfter, m)
		}
		if t.o.TestEvery > 0 && step%t.o.TestEvery == 0 {
			if err := t.validateAndWrite(ctx, stepLabel(step), m); err != nil {
				return err
			}
		} else if err := t.write(step, m); err != nil {
			return err
		}
		if t.o.SaveEvery > 0 && step%t.o.SaveEvery == 0 {
			return t.SaveCheckpoint(ctx)
		}
		return nil
	})
	if err != nil {
		return err
	}
	t.state.WarmStarted, t.state.Finished = true, true
	return t.SaveCheckpoint(ctx)
}

// validateAndWrite validates and writes the result as one line with m.
func (t *Trainer) validateAndWrite(ctx context.Context, label string, m Metrics) error {
	v, err := t.Validate(ctx, label)
	if err != nil {
		return err
	}
	maps.Copy(m, v.Metrics)
	return t.write(t.state.Step, m)
}
