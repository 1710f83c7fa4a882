package algo

import (
	"context"
	"fmt"
	"maps"
	"math"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/reward"
)

// Validate plays every validation task with the current weights. For each environment it returns
// val/<env>/success_rate, mean_score, mean_turns and the share of every outcome. The same metrics of all
// environments together have overall in place of <env>. Episodes that were lost to the infrastructure
// count only for the shares of outcomes. Draws do not depend on the step, so two validations differ by
// the weights alone. When the context soft ends on a rank, Validate stops with ErrInterrupted.
func (t *Trainer) Validate(ctx, soft context.Context, label string) (rundir.Validation, error) {
	play, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(soft, func() { stop(ErrInterrupted) })()
	v := rundir.Validation{Label: label, Step: t.state.Step, Metrics: Metrics{}}
	var all []*data.Episode
	for _, e := range t.Envs {
		if len(e.ValTasks) == 0 {
			continue
		}
		m := Metrics{}
		phase := Phase{Name: "testing", Of: e.Name + " " + label, Total: t.dealt(len(e.ValTasks)) * t.o.Val.GroupSize}
		err := t.playPhase(phase, m, func() error {
			o := t.o.Val
			o.OnProgress = t.playProgress
			episodes, _, err := t.rollOut(ctx, play, map[string]rollout.Env{e.Name: e.Val}, e.ValTasks, o)
			if err == nil {
				err = checkOverlong(e.Name, episodes)
			}
			if err != nil {
				return fmt.Errorf("validation (%s): %w", label, err)
			}
			if err := t.Ranks.OnFirst(ctx, func() error { return t.Run.WriteValidation(label, e.Name, episodes) }); err != nil {
				return err
			}
			maps.Copy(m, ValidationMetrics(e.Name, episodes))
			all = append(all, episodes...)
			return t.scoreValidation(ctx, play, m, e.Name, episodes)
		})
		if err != nil {
			return v, err
		}
		v.Metrics[track.TimingTesting] += m[track.TimingTesting]
		delete(m, track.TimingTesting)
		maps.Copy(v.Metrics, m)
	}
	passes := play
	if t.Ranks != nil { // an interrupt of one rank's pass would break the connection to the others
		passes = ctx
	}
	if err := t.validateLoss(passes, &v); err != nil {
		return v, fmt.Errorf("validation (%s): %w", label, err)
	}
	if len(all) > 0 {
		maps.Copy(v.Metrics, ValidationMetrics(Overall, all))
	}
	t.Events.Validated(v)
	return v, nil
}

// validateLoss adds the loss of held-out trajectories to a validation, if there are any.
func (t *Trainer) validateLoss(ctx context.Context, v *rundir.Validation) error {
	if t.heldOut == nil {
		return nil
	}
	m := Metrics{}
	rows := t.heldOut.ValRows
	err := t.runPhase(Phase{Name: "testing", Of: "held-out rows " + v.Label, Total: len(rows)}, m, func() error {
		return t.exclusive(ctx, func() error {
			loss, tokens, err := t.Actor.LossSFT(countRows(ctx, t.Events), rows, t.heldOut.Micro)
			if err == nil && (math.IsNaN(loss) || math.IsInf(loss, 0)) {
				err = &learner.NotFiniteError{What: "loss of the validation", Value: loss}
			}
			v.Metrics[track.ValidationLoss], v.Metrics[track.ValidationTokens] = loss, float64(tokens)
			return err
		})
	})
	v.Metrics[track.TimingTesting] += m[track.TimingTesting]
	return err
}

// scoreValidation adds the scores of an environment's episodes by the score functions,
// if there are any: val/<env>/reward/<name>/mean of each function, and val/<env>/reward/mean of
// their combined score.
func (t *Trainer) scoreValidation(ctx, play context.Context, m Metrics, env string, episodes []*data.Episode) error {
	if t.o.Scorer == nil {
		return nil
	}
	signal, err := reward.Signals.Lookup(t.o.Signal)
	if err != nil {
		return err
	}
	var samples []reward.Sample
	for _, ep := range episodes {
		if ep.Outcome.Trainable() {
			samples = append(samples, reward.SampleOf(ep, signal))
		}
	}
	composed, err := t.scoreOnce(ctx, play, samples)
	if err != nil {
		return fmt.Errorf("validation: %w", err)
	}
	for name, x := range composed.Metrics() {
		m[track.Validation+"/"+env+"/"+name] = x
	}
	if len(samples) > 0 {
		m[track.Validation+"/"+env+"/reward/mean"] = sum(composed.Scores) / float64(len(samples))
	}
	return nil
}

// ValidationMetrics returns the metrics of a validation's episodes of one environment, or
// Overall.
func ValidationMetrics(env string, episodes []*data.Episode) Metrics {
	m := Metrics{}
	prefix := track.Validation + "/" + env + "/"
	for _, ep := range episodes {
		m[prefix+"outcome/"+string(ep.Outcome)]++
	}
	for name := range m {
		m[name] /= float64(len(episodes))
	}
	summarize(episodes).write(m, prefix)
	return m
}
