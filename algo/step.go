package algo

import (
	"context"
	"fmt"
	"time"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// Metrics are the numbers of one line of metrics.jsonl.
type Metrics = map[string]float64

// step does one training step: play, score, estimate, update, validate when
// due, write. The step counts as done from the moment its weights are there:
// what fails after that is made up for, but the step is not done again.
func (t *Trainer) step(ctx, soft context.Context) (err error) {
	step, before := t.state.Step+1, t.optimizerSteps()
	defer func() {
		// A step that fails is done again, from weights that it has not moved.
		if t.state.Step < step && t.optimizerSteps() != before {
			t.actor.SetInconsistent()
		}
	}()
	m := Metrics{}
	t.handed = map[string]float64{}
	began := time.Now()

	episodes, rows, err := t.generate(ctx, step, m)
	if err != nil {
		return err
	}
	// Before the update: should it fail, the step is done again, and what led
	// to the failure is there to be looked at.
	if err := t.run.WriteEpisodes(step, episodes); err != nil {
		return err
	}
	var learned learner.LogProbGap
	var kept []data.Row // by AgentEvol
	if t.o.Evol != nil {
		kept, err = t.evolve(ctx, step, episodes, m)
	} else {
		learned, err = t.update(ctx, step, rows, m)
	}
	if err != nil {
		return err
	}
	if err := t.learnCourse(step, episodes, m); err != nil {
		return err
	}
	t.state.Step = step
	if t.o.Evol != nil {
		t.store(kept, m)
	}
	t.keepBadSteps() // also where the critic alone was trained
	t.state.SetDrawState(t.order.State())
	if t.kl != nil {
		t.state.KLCoef = new(float64)
		*t.state.KLCoef = t.kl.Coef
	}
	m["timing_s/step"] = time.Since(began).Seconds()
	m["training/global_step"], m["training/epoch"] = float64(step), float64(epoch(&t.state, t.envs))
	throughput(m, t.handed)
	t.state.Unreported, t.unsaved = m, true
	if err := t.report(ctx, soft, step, t.o.Steps); err != nil {
		return err
	}
	return t.checkGap(step, learned)
}

// optimizerSteps counts those that actor and critic have done.
func (t *Trainer) optimizerSteps() int {
	n := t.actor.OptimizerSteps()
	if t.critic != nil {
		n += t.critic.OptimizerSteps()
	}
	return n
}

// hand counts what a phase is given: the tokens of rows, in so many passes.
func (t *Trainer) hand(phase string, rows []data.Row, passes int) {
	if t.handed == nil {
		t.handed = map[string]float64{}
	}
	for i := range rows {
		t.handed[phase] += float64(passes * len(rows[i].Tokens))
	}
}

// phase runs one named part of a step and adds its seconds to the metrics.
func (t *Trainer) phase(step int, name string, total int, m Metrics, f func() error) error {
	steps := t.o.Steps
	if t.state.Supervised {
		steps = t.o.WarmStart.Steps()
	}
	return t.during(Phase{Name: name, Step: step, Steps: steps, Total: total}, m, f)
}

// during is phase, described in full.
func (t *Trainer) during(p Phase, m Metrics, f func() error) error {
	t.events.Phase(p)
	began := time.Now()
	err := f()
	m["timing_s/"+p.Name] += time.Since(began).Seconds()
	return err
}

// GapError reports log-probs of sampling and training that are further apart
// than allowed.
type GapError struct {
	Got, Limit float64
}

// Error says what the gap means and what helps.
func (e *GapError) Error() string {
	return fmt.Sprintf("log-probs of sampling and training differ by %.3g on average, more than rollout.max_logprob_gap = %.3g: "+
		"train in float32 (model.compute_dtype) or raise the limit", e.Got, e.Limit)
}

func (t *Trainer) checkGap(step int, g learner.LogProbGap) error {
	if t.o.MaxGap <= 0 || g.Mean <= t.o.MaxGap || t.offPolicy(step) {
		return nil
	}
	err := &GapError{Got: g.Mean, Limit: t.o.MaxGap}
	if t.o.FailOnGap {
		return err
	}
	t.log.Warn(err.Error(), "step", step)
	return nil
}

// throughput adds how fast a step was, phase by phase: those of the update by
// the tokens they were handed, which rows without an advantage are not among.
func throughput(m Metrics, handed map[string]float64) {
	sampled, all := m["rollout/sampled_tokens"], m["rollout/tokens"]
	if s := m["timing_s/gen"]; s > 0 {
		m["perf/sampled_tokens_per_s"] = sampled / s
		m["perf/turns_per_s"] = m["rollout/turns"] / s
	}
	for phase, name := range map[string]string{"old_log_prob": "old_log_prob", "ref": "ref", "update_actor": "update"} {
		if s := m["timing_s/"+phase]; s > 0 {
			m["perf/"+name+"_tokens_per_s"] = handed[phase] / s
		}
	}
	if sampled > 0 {
		m[track.TimingPerTokenMS+"/gen"] = 1000 * m["timing_s/gen"] / sampled
	}
	for _, phase := range []string{"ref", "values", "adv", "update_critic", "update_actor"} {
		if s, ok := m["timing_s/"+phase]; ok && all > 0 {
			m[track.TimingPerTokenMS+"/"+phase] = 1000 * s / all
		}
	}
	m["perf/total_num_tokens"] = all
	m["perf/time_per_step"] = m["timing_s/step"]
	if s := m["timing_s/step"]; s > 0 {
		m["perf/throughput"] = all / s
	}
}
