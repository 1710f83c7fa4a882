package algo

import (
	"context"
	"fmt"
	"os"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data/crash"
	"github.com/openmanus/openmanus/torch"
)

// Crash points around the replacement of the reference.
var (
	atReference        = crash.New("reference/write")   // before the reference is written
	atReferenceRemoved = crash.New("reference/removed") // the old reference is removed, the new one is not yet renamed
)

// begin runs the warm start and the validations around it, before the first
// step of reinforcement learning. It ends with a checkpoint, so that a run
// killed later does not repeat the warm start.
func (t *Trainer) begin(ctx, soft context.Context) error {
	if t.o.WarmStart != nil && !t.state.WarmStarted {
		if t.o.ValUntrained && !t.validated(rundir.LabelUntrained) {
			if err := t.validateAtStart(ctx, soft, rundir.LabelUntrained, "untrained/"); err != nil {
				return err
			}
		}
		if err := t.warmStart(ctx, soft); err != nil {
			return err
		}
		t.newWeights()
		if err := t.publish(ctx, func() error { return nil }); err != nil {
			return err
		}
	}
	if t.o.FreezeReference && !t.state.WarmStarted {
		if err := t.freezeReference(ctx); err != nil {
			return err
		}
	}
	if t.Critic != nil && !t.Critic.Shared() && t.o.Critic.FromActor && !t.state.WarmStarted {
		if err := t.Critic.CopyFrom(ctx, t.Actor); err != nil {
			return err
		}
	}
	if t.state.WarmStarted = true; t.o.ValBeforeTrain {
		if err := t.SaveCheckpoint(ctx); err != nil { // save first, because the validation may take long
			return err
		}
		if err := t.validateAtStart(ctx, soft, rundir.LabelBefore, ""); err != nil {
			return err
		}
	}
	t.state.Begun = true
	return t.SaveCheckpoint(ctx)
}

// warmStart does the supervised epochs before the first step. A run that is
// resumed during these epochs loads the optimiser from the checkpoint.
func (t *Trainer) warmStart(ctx, soft context.Context) error {
	if err := t.freeKV(ctx); err != nil {
		return err
	}
	o := *t.o.WarmStart
	if t.state.WarmSteps == 0 {
		if err := t.Actor.ResetOptimizer(ctx, o.AdamW); err != nil {
			return err
		}
	}
	o.Events, o.Ranks, o.Save = t.Events, t.Ranks, t.SaveCheckpoint
	err := TrainSFT(ctx, soft, t.Actor, o, t.state.WarmSteps, func(step, steps int, m Metrics) error {
		t.state.WarmSteps = step
		t.keepBadSteps()
		t.state.Unreported, t.unsaved = m, true
		return t.reportWarm(ctx, steps)
	})
	if err != nil {
		return err
	}
	return t.Actor.ResetOptimizer(ctx, t.o.AdamW)
}

// reportWarm writes the line of a step of the warm start.
func (t *Trainer) reportWarm(ctx context.Context, steps int) error {
	m := Metrics(t.state.Unreported)
	if err := t.write(ctx, track.PhaseSFT, t.state.WarmSteps, m); err != nil {
		return err
	}
	t.state.Unreported = nil
	t.Events.Step(0, steps, m)
	return nil
}

// freezeReference makes the current weights the reference of the KL and writes
// them to the run folder, where a resumed run reads them.
func (t *Trainer) freezeReference(ctx context.Context) error {
	t.Events.Phase(Phase{Name: PhaseReference})
	return t.Engine.Exclusive(ctx, func() error {
		if t.Ref != nil { // a worker has none
			err := torch.Run(ctx, t.Ref.Thread(), func(s *torch.Scope) error {
				t.Ref.CopyFrom(s, t.Actor.Master())
				return nil
			})
			if err != nil {
				return fmt.Errorf("copy the reference: %w", err)
			}
		}
		return t.onWriter(ctx, func() error { return t.writeReference(ctx) }, func() error { return t.Save(ctx, "") })
	})
}

// writeReference writes the weights to the run folder as the reference.
func (t *Trainer) writeReference(ctx context.Context) error {
	tmp := t.Run.Reference() + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	atReference.Pass()
	if err := t.Save(ctx, tmp); err != nil {
		return err
	}
	if err := os.RemoveAll(t.Run.Reference()); err != nil {
		return err
	}
	atReferenceRemoved.Pass()
	return os.Rename(tmp, t.Run.Reference())
}
