package algo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/openmanus/openmanus/agent/engine"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/reward"
)

// Metrics are the numbers of one line of metrics.jsonl.
type Metrics = map[string]float64

// step does one training step: play, score, estimate, update, validate when
// due, write. The step counts as done from the moment its weights are there:
// what fails after that is made up for, but the step is not done again.
func (t *Trainer) step(ctx, soft context.Context) error {
	step := t.state.Step + 1
	m := Metrics{}
	began := time.Now()

	tasks := t.choose(step, t.o.BatchTasks)
	var episodes []*data.Episode
	err := t.phase(step, "gen", len(tasks)*t.o.Train.GroupSize, m, func() (err error) {
		episodes, err = t.play(ctx, step, tasks, m)
		return err
	})
	if err != nil {
		return err
	}
	var batch data.Batch
	err = t.phase(step, "reward", 0, m, func() (err error) {
		batch, err = t.score(ctx, episodes, m)
		return err
	})
	if err != nil {
		return err
	}
	// Before the update: should it fail, the step is done again, and what led
	// to the failure is there to be looked at.
	if err := t.run.WriteEpisodes(step, episodes); err != nil {
		return err
	}
	learned, err := t.update(ctx, step, batch.Rows, m)
	if err != nil {
		return err
	}
	if err := t.learnCourse(step, episodes, m); err != nil {
		return err
	}
	t.state.Step = step
	t.state.Order = t.order.State()
	m["timing_s/step"] = time.Since(began).Seconds()
	m["training/global_step"], m["training/epoch"] = float64(step), float64(t.state.Order.Epoch)
	throughput(m)
	t.state.Unreported, t.unsaved = m, true
	if err := t.report(ctx, soft, step, t.o.Steps); err != nil {
		return err
	}
	return t.checkGap(step, learned)
}

// phase runs one named part of a step and records its seconds.
func (t *Trainer) phase(step int, name string, total int, m Metrics, f func() error) error {
	t.events.Phase(step, name, total)
	began := time.Now()
	err := f()
	m["timing_s/"+name] = time.Since(began).Seconds()
	return err
}

// play rolls the tasks out.
func (t *Trainer) play(ctx context.Context, step int, tasks []data.Task, m Metrics) ([]*data.Episode, error) {
	o := t.o.Train
	o.Step = step
	o.OnProgress = t.onProgress
	before := t.engine.Stats()
	episodes, stats, err := rollout.RunEpisodes(ctx, t.trainEnvs(step), tasks, o)
	if err != nil {
		return nil, err
	}
	engineMetrics(m, before, t.engine.Stats())
	for name, x := range rollout.Metrics(episodes) {
		m[name] = x
	}
	m["rollout/retries"] = float64(stats.Retries)
	m["rollout/dropped"] = float64(stats.Failed)
	m["rollout/turns"] = float64(stats.Turns)
	m["rollout/tokens"] = float64(stats.Tokens)
	m["rollout/sampled_tokens"] = float64(stats.SampledTokens)
	return episodes, nil
}

// engineMetrics says how well the engine was used between two counts.
func engineMetrics(m Metrics, before, after engine.Stats) {
	steps := float64(after.Steps - before.Steps)
	m["engine/steps"] = steps
	m["engine/prefill_tokens"] = float64(after.PrefillTokens - before.PrefillTokens)
	m["engine/decode_tokens"] = float64(after.DecodeTokens - before.DecodeTokens)
	m["engine/parked"] = float64(after.Parked - before.Parked)
	if steps > 0 {
		m["engine/rows_per_step"] = float64(after.Rows-before.Rows) / steps
	}
}

func (t *Trainer) onProgress(p rollout.Progress) {
	t.events.Progress(p.Done, fmt.Sprintf("%d solved", p.Success))
}

// score turns episodes into rows with token rewards. Episodes that failed for
// reasons that are not the model's, or in which it said nothing, are left out
// and counted.
func (t *Trainer) score(ctx context.Context, episodes []*data.Episode, m Metrics) (data.Batch, error) {
	signal, err := reward.Signals.Lookup(t.o.Signal)
	if err != nil {
		return data.Batch{}, err
	}
	allocate, err := reward.Allocations.Lookup(t.o.Allocation)
	if err != nil {
		return data.Batch{}, err
	}
	var usable []*data.Episode
	silent := 0
	for _, ep := range episodes {
		switch {
		case !ep.Outcome.Trainable():
		case ep.SampledTokens() == 0: // the first messages already fill the context
			silent++
		default:
			usable = append(usable, ep)
		}
	}
	m["rollout/rows_without_reply"] = float64(silent)
	batch, err := data.BatchFromEpisodes(usable)
	if err != nil {
		return batch, err
	}
	scores, err := t.scores(ctx, usable, signal, m)
	if err != nil {
		return batch, err
	}
	for i := range batch.Rows {
		r := &batch.Rows[i]
		r.Score = scores[i]
		paid := reward.Paid{Mask: r.Mask, Turns: r.Turns, Signal: signal, Gamma: t.o.AllocationGamma}
		paid.Score = reward.LessInvalid(reward.LessTurns(r.Score, r.Turns, t.o.TurnPenalty), r.Turns, t.o.InvalidActionPenalty)
		if r.Rewards, err = allocate(paid); err != nil {
			return batch, fmt.Errorf("row %s: %w", r.UID, err)
		}
	}
	return batch, nil
}

// scores are what the episodes are worth: what the environment says, or what
// the score functions do.
func (t *Trainer) scores(ctx context.Context, episodes []*data.Episode, signal reward.Signal, m Metrics) ([]float64, error) {
	out := make([]float64, len(episodes))
	samples := make([]reward.Sample, len(episodes))
	turns, valid := 0, 0
	for i, ep := range episodes {
		out[i] = signal(ep.Turns)
		samples[i] = reward.SampleOf(ep, signal)
		turns += len(ep.Turns)
		valid += reward.ValidActions(ep.Turns)
	}
	if turns > 0 {
		m["episode/valid_action_ratio"] = float64(valid) / float64(turns)
	}
	if t.o.Scorer == nil {
		return out, nil
	}
	composed, err := t.o.Scorer.Score(ctx, samples)
	if err != nil {
		return nil, err
	}
	maps.Copy(m, composed.Metrics())
	return composed.Scores, nil
}

// update estimates advantages and updates the actor. Without a row to learn
// from it changes nothing and says so in the metrics. It returns the gap
// between the log-probs of sampling and training.
func (t *Trainer) update(ctx context.Context, step int, rows []data.Row, m Metrics) (gap LogProbGap, err error) {
	err = t.phase(step, "adv", 0, m, func() error {
		return ComputeAdvantages(t.o.Estimator, rows, t.o.EstimatorOpts)
	})
	if err != nil {
		return gap, err
	}
	for name, x := range BatchMetrics(rows) {
		m[name] = x
	}
	if t.o.DropZeroSpread {
		metric, known := GroupMetrics[t.o.FilterMetric]
		if !known {
			return gap, fmt.Errorf("there is no group metric %q", t.o.FilterMetric)
		}
		kept, groups := DropZeroSpread(rows, metric)
		m["group/dropped_rows"] = float64(len(rows) - len(kept))
		m["group/single"] = float64(groups.Single)
		rows = kept
	}
	lr := t.o.Schedule.LR(step - 1)
	m["actor/lr"] = lr
	m["actor/updated_rows"] = float64(len(rows))
	if len(rows) == 0 {
		t.log.Warn("no group has episodes of different scores: nothing to learn from in this step", "step", step)
		return gap, nil
	}
	var st PolicyStats
	err = t.engine.Exclusive(ctx, func() (err error) {
		st, err = t.updateActor(ctx, step, rows, lr, m)
		return err
	})
	if err != nil {
		return gap, err
	}
	t.newWeights()
	st.metrics(m, t.o.Policy)
	entropyByTurn(m, rows)
	if st.Skipped > 0 {
		t.log.Warn("optimiser steps that were not finite are left out", "step", step, "left_out", st.Skipped,
			"of", st.Skipped+st.Steps, "batches", t.run.BadSteps())
	}
	return st.Gap, nil
}

func (t *Trainer) updateActor(ctx context.Context, step int, rows []data.Row, lr float64, m Metrics) (st PolicyStats, err error) {
	p := t.o.Policy
	if p.MiniBatch > 0 && p.MiniBatch < len(rows) || t.actor.Compute().Dropout() > 0 {
		err = t.phase(step, "old_log_prob", 0, m, func() error {
			return LogProbs(ctx, t.actor.Compute(), rows, p.Micro, p.Temperature, func(r *data.Row) *[]float32 { return &r.OldLogProbs })
		})
		if err != nil {
			return st, err
		}
	}
	if t.ref != nil {
		err = t.phase(step, "ref", 0, m, func() (err error) {
			back, err := t.fetchRef(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, back()) }()
			return LogProbs(ctx, t.ref, rows, t.o.RefMicro, p.Temperature, func(r *data.Row) *[]float32 { return &r.RefLogProbs })
		})
		if err != nil {
			return st, err
		}
	}
	err = t.phase(step, "update_actor", 0, m, func() (err error) {
		back, err := t.fetchOptimizer(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, back()) }()
		st, err = t.actor.UpdateActor(ctx, rows, lr, p)
		return err
	})
	return st, err
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

func (t *Trainer) checkGap(step int, g LogProbGap) error {
	if t.o.MaxGap <= 0 || g.Mean <= t.o.MaxGap {
		return nil
	}
	err := &GapError{Got: g.Mean, Limit: t.o.MaxGap}
	if t.o.FailOnGap {
		return err
	}
	t.log.Warn(err.Error(), "step", step)
	return nil
}

// throughput adds how fast a step was, phase by phase.
func throughput(m Metrics) {
	sampled, all := m["rollout/sampled_tokens"], m["rollout/tokens"]
	if s := m["timing_s/gen"]; s > 0 {
		m["perf/sampled_tokens_per_s"] = sampled / s
		m["perf/turns_per_s"] = m["rollout/turns"] / s
	}
	for phase, name := range map[string]string{"old_log_prob": "old_log_prob", "ref": "ref", "update_actor": "update"} {
		if s := m["timing_s/"+phase]; s > 0 {
			m["perf/"+name+"_tokens_per_s"] = all / s
		}
	}
	if sampled > 0 {
		m[track.TimingPerTokenMS+"/gen"] = 1000 * m["timing_s/gen"] / sampled
	}
	for _, phase := range []string{"ref", "adv", "update_actor"} {
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
