package algo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/torch"
)

// ErrInterrupted is returned by Fit and FitSFT when they stopped early because
// they were asked to. What was done is saved.
var ErrInterrupted = errors.New("interrupted; the same command goes on from the last checkpoint")

// Fit runs the whole training: the warm start, validation before, the steps
// that are left, validation and a checkpoint at the end. When soft ends it
// finishes the step, breaks a validation off, saves and returns
// ErrInterrupted; when ctx ends it stops where it is. After any other failure
// what was done is saved first, unless the weights belong to no step.
func (t *Trainer) Fit(ctx, soft context.Context) (err error) {
	defer func() { err = t.saveAfter(ctx, err) }()
	if err := t.makeUp(ctx, soft); err != nil {
		return err
	}
	if !t.state.Begun {
		if err := t.begin(ctx, soft); err != nil {
			return err
		}
	}
	if err := t.offload(ctx); err != nil {
		return err
	}
	t.state.Finished = false // it was, where total_steps has been raised
	for t.state.Step < t.o.Steps {
		if soft.Err() != nil {
			return ErrInterrupted
		}
		step := t.state.Step + 1
		if err := t.step(ctx, soft); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		last := t.state.Step == t.o.Steps
		if !last && (t.o.SaveEvery > 0 && t.state.Step%t.o.SaveEvery == 0 || t.bestNow()) {
			if err := t.SaveCheckpoint(ctx); err != nil {
				return err
			}
		}
	}
	t.state.Finished = true
	return t.SaveCheckpoint(ctx)
}

// saveAfter saves what an error of a run would lose. After ctx has ended
// nothing is saved, nor are weights that are between two steps.
func (t *Trainer) saveAfter(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || !t.unsaved || t.actor.Inconsistent() || t.critic != nil && t.critic.Inconsistent() {
		return err
	}
	if saveErr := t.SaveCheckpoint(ctx); saveErr != nil {
		err = errors.Join(err, fmt.Errorf("saving step %d after that: %w", t.state.Step, saveErr))
	}
	return err
}

// begin does what comes before the first step: the warm start and the
// validations around it. It ends with a checkpoint, so that a run that is
// killed later never repeats it.
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
	}
	if t.o.FreezeReference && !t.state.WarmStarted {
		if err := t.freezeReference(ctx); err != nil {
			return err
		}
	}
	if t.critic != nil && !t.critic.Shared() && t.o.Critic.FromActor && !t.state.WarmStarted {
		if err := t.critic.CopyFrom(ctx, t.actor); err != nil {
			return err
		}
	}
	if t.state.WarmStarted = true; t.o.ValBeforeTrain {
		if err := t.SaveCheckpoint(ctx); err != nil { // the validation may take long
			return err
		}
		if err := t.validateAtStart(ctx, soft, rundir.LabelBefore, ""); err != nil {
			return err
		}
	}
	t.state.Begun = true
	return t.SaveCheckpoint(ctx)
}

// validateAtStart writes a validation as a line of step 0, its results behind
// prefix.
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
	if err := t.write(0, m); err != nil {
		return err
	}
	t.addValidation(v, best)
	return nil
}

// addValidation records a validation whose line is written, and the best
// checkpoint after it.
func (t *Trainer) addValidation(v rundir.Validation, best *rundir.Best) {
	t.unsaved = t.unsaved || best != t.state.Best
	t.state.Validations, t.state.Best = append(t.state.Validations, v), best
}

// bestNow reports whether the current step is the best so far. Its checkpoint is
// then saved even if SaveEvery is not due.
func (t *Trainer) bestNow() bool { return t.state.Best != nil && t.state.Best.Step == t.state.Step }

func (t *Trainer) validated(label string) bool {
	for _, v := range t.state.Validations {
		if v.Label == label {
			return true
		}
	}
	return false
}

// makeUp reports the step whose report a run before this one did not get done.
func (t *Trainer) makeUp(ctx, soft context.Context) error {
	switch {
	case t.state.Unreported == nil:
		return nil
	case t.state.Supervised:
		return t.report(ctx, soft, 0, t.o.WarmStart.Steps())
	case t.state.Step == 0:
		return t.reportWarm(t.o.WarmStart.Steps())
	}
	return t.report(ctx, soft, t.state.Step, t.o.Steps)
}

// report validates after a finished step where that is due and writes its
// line. Until both are done the step's metrics stay in the state: its weights
// are there, so it is never done again. shown is the step as Events take it.
func (t *Trainer) report(ctx, soft context.Context, shown, steps int) error {
	step := t.state.Step
	m := Metrics(maps.Clone(t.state.Unreported))
	if t.o.TestEvery > 0 && step%t.o.TestEvery == 0 || step == steps {
		label := rundir.StepLabel(step)
		if step == steps {
			label = rundir.LabelAfter
		}
		v, err := t.Validate(ctx, soft, label)
		if err != nil {
			return err
		}
		maps.Copy(m, v.Metrics)
		if _, ok := m["timing_s/step"]; ok {
			m["timing_s/step"] += v.Metrics["timing_s/testing"]
		}
		best := t.state.Best.Next(v, t.o.BestMetric)
		best.AddTo(m)
		if err := t.write(step, m); err != nil {
			return err
		}
		t.addValidation(v, best)
	} else if err := t.write(step, m); err != nil {
		return err
	}
	t.state.Unreported = nil
	t.events.Step(shown, steps, m)
	return nil
}

// keepBadSteps makes the rows of bad steps part of the state: a run that is
// started again after two of them has not got two more.
func (t *Trainer) keepBadSteps() {
	t.state.BadSteps = t.actor.BadSteps()
	if t.critic != nil {
		t.state.CriticBadSteps = t.critic.BadSteps()
	}
}

// newWeights tells the sampler that what it cached is stale.
func (t *Trainer) newWeights() {
	t.keepBadSteps()
	t.state.WeightVersion++
	t.unsaved = true
	if t.updated != nil {
		t.updated(t.state.WeightVersion)
	}
}

// write appends a line to the metrics.
func (t *Trainer) write(step int, m Metrics) error {
	line := Metrics{}
	maps.Copy(line, m)
	t.memory(line)
	if t.saving > 0 {
		line["timing_s/save_checkpoint"], t.saving = t.saving, 0
	}
	t.faultMetrics(line)
	if err := t.sink.Write(step, line); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// memory says what the process holds now: a run that leaks shows it from line
// to line, and which of them grows says where to look.
func (t *Trainer) memory(m Metrics) {
	if rss := torch.RSS(); rss > 0 {
		m[track.ProcessBytes] = float64(rss)
	}
	m[track.TensorBytes] = float64(torch.LiveBytes())
	weights, optimizer := t.actor.Bytes()
	m[track.MemoryBytes+"/weights"], m[track.MemoryBytes+"/optimizer"] = weights, optimizer
	if t.critic != nil {
		m[track.MemoryBytes+"/critic"], m[track.MemoryBytes+"/critic_optimizer"] = t.critic.Bytes()
	}
	if t.ref != nil {
		m[track.MemoryBytes+"/reference"] = learner.ModelBytes(t.ref)
	}
	if t.scoreBytes > 0 {
		m[track.MemoryBytes+"/reward_model"] = float64(t.scoreBytes)
	}
	if t.kvBytes > 0 {
		m[track.MemoryBytes+"/kv_cache"] = float64(t.kvBytes)
	}
}

// IsDiskError reports whether err came from writing the run folder.
func IsDiskError(err error) bool {
	var pe *os.PathError
	var le *os.LinkError
	return errors.As(err, &pe) || errors.As(err, &le)
}
