package algo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
)

// ErrInterrupted is returned by Fit if it stopped early on request. All finished
// work is saved.
var ErrInterrupted = errors.New("interrupted; run the same command to resume from the last checkpoint")

// Fit runs the whole training: the method's Begin, the remaining steps, a validation and
// a checkpoint at the end. When the context soft ends, Fit finishes the step, cancels a running
// validation, saves and returns ErrInterrupted. When ctx ends, Fit returns at once. After
// any other failure Fit first saves the finished work, unless the weights are between two
// steps.
func (t *Trainer) Fit(ctx, soft context.Context) (err error) {
	if t.state.Finished && t.state.Step >= t.steps {
		return nil
	}
	defer func() { err = t.saveAfter(ctx, t.Ranks.Settle(ctx, err)) }()
	// The best checkpoint may have been set aside: New looked on the disk.
	type kept struct{ Best *rundir.Best }
	found, err := ranks.Share(ctx, t.Ranks, func() (kept, error) { return kept{t.state.Best}, nil })
	if err != nil {
		return err
	}
	t.state.Best = found.Best
	t.published = -1 // the workers may have other weights
	if err := t.publish(ctx, func() error { return nil }); err != nil {
		return err
	}
	if err := t.reportPending(ctx, soft); err != nil {
		return err
	}
	if !t.state.Begun {
		if err := t.method.Begin(ctx, soft, t); err != nil {
			return err
		}
	}
	if err := t.offload(ctx); err != nil {
		return err
	}
	defer t.stopAhead()
	t.state.Finished = false // a finished run continues if its number of steps was raised
	for t.state.Step < t.steps {
		step := t.state.Step + 1
		if err := stop(ctx, soft, t.Ranks); err != nil {
			if t.Ranks.Broken() {
				err = fmt.Errorf("step %d: %w", step, err)
			}
			return err
		}
		if err := t.step(ctx, soft); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		last := t.state.Step == t.steps
		if !last && (t.o.SaveEvery > 0 && t.state.Step%t.o.SaveEvery == 0 || t.bestNow()) {
			if err := t.SaveCheckpoint(ctx); err != nil {
				return err
			}
		}
	}
	t.state.Finished = true
	return t.SaveCheckpoint(ctx)
}

// step does one training step and reports it. The order makes sure that no update
// is done twice and no step is partly reported:
//
//  1. The episodes are on disk before the update. If the update fails, the episodes
//     show the cause.
//  2. The step is done when its weights are updated; its metrics become
//     State.Unreported. After an earlier failure the step is repeated, so it must not
//     have changed the weights.
//  3. The validation and the line of metrics follow. If one of them fails,
//     State.Unreported remains, and a resumed run reports it first.
func (t *Trainer) step(ctx, soft context.Context) (err error) {
	step, before := t.state.Step+1, t.optimizerSteps()
	defer func() {
		if t.state.Step < step && t.optimizerSteps() != before {
			t.Actor.SetInconsistent()
		}
	}()
	m, began := Metrics{}, time.Now()
	clear(t.tokens)

	batch, err := t.method.Collect(ctx, step, m)
	if err != nil {
		return err
	}
	if batch.Episodes != nil {
		if err := t.Ranks.OnFirst(ctx, func() error { return t.Run.WriteEpisodes(step, batch.Episodes) }); err != nil {
			return err
		}
	}
	if err := t.publish(ctx, func() error { return t.method.Learn(ctx, step, batch, m) }); err != nil {
		return err
	}
	if err := t.method.Finish(step, batch, time.Since(began).Seconds(), m); err != nil {
		return err
	}
	t.keepBadSteps()
	t.state.Step, t.state.Unreported, t.unsaved = step, m, true

	if err := t.report(ctx, soft); err != nil {
		return err
	}
	return t.method.Check(step)
}

// report validates after a finished step if a validation is due, and writes the step's line.
func (t *Trainer) report(ctx, soft context.Context) error {
	step := t.state.Step
	m := Metrics(maps.Clone(t.state.Unreported))
	if t.o.TestEvery > 0 && step%t.o.TestEvery == 0 || step == t.steps {
		label := rundir.StepLabel(step)
		if step == t.steps {
			label = rundir.LabelAfter
		}
		v, err := t.Validate(ctx, soft, label)
		if err != nil {
			return err
		}
		maps.Copy(m, v.Metrics)
		if _, ok := m[track.TimingStep]; ok {
			m[track.TimingStep] += v.Metrics[track.TimingTesting]
		}
		best := t.state.Best.Next(v, t.o.BestMetric)
		best.AddTo(m)
		if err := t.write(ctx, track.PhaseTrain, step, m); err != nil {
			return err
		}
		t.addValidation(v, best)
	} else if err := t.write(ctx, track.PhaseTrain, step, m); err != nil {
		return err
	}
	t.state.Unreported = nil
	t.Events.Step(step, t.steps, m)
	return nil
}

// reportPending reports the last finished step if the previous process ended before its report.
func (t *Trainer) reportPending(ctx, soft context.Context) error {
	switch {
	case t.state.Unreported == nil:
		return nil
	case t.state.Step == 0:
		return t.reportWarm(ctx, t.o.WarmStart.Steps())
	}
	return t.report(ctx, soft)
}

// saveAfter saves the finished work after the error err and returns err, joined with an error
// of the save. It saves nothing if ctx has ended or if the weights are between two steps.
func (t *Trainer) saveAfter(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	due := t.unsaved && !t.Actor.Inconsistent() && (t.Critic == nil || !t.Critic.Inconsistent())
	if !t.Ranks.Broken() { // ranks that only play have no optimiser that could be between two steps
		if first, shareErr := ranks.Share(ctx, t.Ranks, func() (bool, error) { return due, nil }); shareErr == nil {
			due = first
		}
	}
	if !due {
		return err
	}
	save := t.SaveCheckpoint
	if t.Ranks.Broken() { // another rank has ended; the weights of a finished step are complete on every rank
		if !t.Ranks.First() || t.sharded() {
			return err
		}
		save = t.save
	}
	if saveErr := save(ctx); saveErr != nil {
		err = errors.Join(err, fmt.Errorf("saving step %d after this error: %w", t.state.Step, saveErr))
	}
	return err
}

// validateAtStart validates and writes the results as a line of step 0, with the
// given prefix before the names of the metrics.
func (t *Trainer) validateAtStart(ctx, soft context.Context, label, prefix string) error {
	v, err := t.Validate(ctx, soft, label)
	if err != nil {
		return err
	}
	m := Metrics{}
	for name, x := range v.Metrics {
		if strings.HasPrefix(name, track.Validation+"/") {
			name = prefix + name
		}
		m[name] = x
	}
	best := t.state.Best.Next(v, t.o.BestMetric)
	if best != t.state.Best {
		best.AddTo(m)
	}
	if err := t.write(ctx, track.PhaseTrain, 0, m); err != nil {
		return err
	}
	t.addValidation(v, best)
	return nil
}

// addValidation adds a reported validation to the state and sets the best checkpoint.
func (t *Trainer) addValidation(v rundir.Validation, best *rundir.Best) {
	t.unsaved = t.unsaved || best != t.state.Best
	t.state.Validations, t.state.Best = append(t.state.Validations, v), best
}

// bestNow reports whether the current step is the best so far. Its checkpoint is
// then saved even if SaveEvery is not due.
func (t *Trainer) bestNow() bool { return t.state.Best != nil && t.state.Best.Step == t.state.Step }

func (t *Trainer) validated(label string) bool {
	return slices.ContainsFunc(t.state.Validations, func(v rundir.Validation) bool { return v.Label == label })
}

// IsDiskError reports whether err came from writing the run folder.
func IsDiskError(err error) bool {
	_, path := errors.AsType[*os.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	return path || link
}
