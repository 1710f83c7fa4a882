package algo

import (
	"context"
	"errors"
	"fmt"
	"github.com/openmanus/openmanus/algo/rundir"
)

// FitSFT is supervised training as a run of its own: the steps of the warm
// start are the run's steps, with checkpoints and validations at the same
// cadence as Fit, and a killed run goes on inside an epoch. A finished one goes
// on where there are more epochs now.
func (t *Trainer) FitSFT(ctx, soft context.Context) (err error) {
	if t.o.WarmStart == nil {
		return errors.New("supervised training needs trajectories")
	}
	o := *t.o.WarmStart
	o.Events = t.events
	if t.state.Finished && t.state.Step >= o.Steps() {
		return nil
	}
	if t.state.Step > 0 && !t.state.Supervised {
		return errors.New("the checkpoint is one of reinforcement learning: supervised training cannot go on from it")
	}
	t.state.Supervised = true
	t.state.Finished = false // it was, where the epochs have been raised
	steps := o.Steps()
	defer func() { err = t.saveAfter(ctx, err) }()
	if err := t.makeUp(ctx, soft); err != nil {
		return err
	}
	if t.state.Step == 0 && t.o.ValBeforeTrain && !t.validated(rundir.LabelBefore) {
		if err := t.validateAtStart(ctx, soft, rundir.LabelBefore, ""); err != nil {
			return err
		}
		if t.state.Best != nil { // which may stay the best
			if err := t.SaveCheckpoint(ctx); err != nil {
				return err
			}
		}
	}
	err = TrainSFT(ctx, soft, t.actor, o, t.state.Step, func(step, _ int, m Metrics) error {
		t.state.Step = step
		t.state.Unreported = m
		t.newWeights()
		if err := t.report(ctx, soft, 0, steps); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if step < steps && (t.o.SaveEvery > 0 && step%t.o.SaveEvery == 0 || t.bestNow()) {
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
