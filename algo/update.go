package algo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/correction"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// measured says which log-probs the rows of a step have already.
type measured struct {
	old, ref bool
	gap      learner.LogProbGap // between sampling and training, if old
}

// update estimates advantages and updates the actor. Without a row to learn
// from it changes nothing and says so in the metrics. It returns the gap
// between the log-probs of sampling and training.
func (t *Trainer) update(ctx context.Context, step int, rows []data.Row, m Metrics) (gap learner.LogProbGap, err error) {
	var have measured
	if have, err = t.measure(ctx, step, rows, m); err != nil {
		return gap, err
	}
	err = t.phase(step, "adv", 0, m, func() error {
		rows, err = t.advantages(step, rows, m)
		return err
	})
	if err != nil {
		return gap, err
	}
	if err := t.updateCritic(ctx, step, rows, m); err != nil {
		return gap, err
	}
	if t.critic != nil && step <= t.o.Critic.Warmup {
		return have.gap, nil
	}
	warmup := 0 // of the critic; the actor's rate waits for its first step
	if t.critic != nil {
		warmup = t.o.Critic.Warmup
	}
	lr := t.o.Schedule.LR(step - 1 - warmup)
	m["actor/lr"] = lr
	m["actor/updated_rows"] = float64(episodesIn(rows))
	switch {
	case len(rows) == 0:
		t.log.Warn("no group has episodes of different scores: nothing to learn from in this step", "step", step)
		return have.gap, nil
	case learner.LossTokens(rows) == 0:
		t.log.Warn("every token was rejected: nothing to learn from in this step; sampling and training disagree more than "+
			"algo.rollout_correction.rollout_rs_threshold allows", "step", step)
		return have.gap, nil
	}
	var st learner.PolicyStats
	o := t.o.Policy
	o.Value = t.valueTerm(step)
	o.Seed = rollout.EpisodeSeed(t.o.Seed, step, "", "policy loss", 0, 0)
	err = t.engine.Exclusive(ctx, func() (err error) {
		st, err = t.updateActor(ctx, step, rows, lr, o, have, m)
		return err
	})
	if err != nil {
		return gap, err
	}
	if have.old { // over all rows and tokens, whatever was taken out since
		st.Gap = have.gap
	}
	t.newWeights()
	st.AddTo(m, o)
	if o.Loss == loss.Bypass && !t.o.Correction.on() {
		if err := diagnoseBypass(rows, m); err != nil {
			return gap, err
		}
	}
	if o.Value != nil {
		st.Value.AddTo(m, o.Value.LR)
	}
	t.actorUtilization(m, rows, o.Passes)
	if st.Skipped > 0 {
		t.warnOfSkipped(step, st.Skipped, st.Steps)
	}
	seen, err := whole(rows, func(r *data.Row) *[]float32 { return &r.Entropies })
	if err != nil {
		return gap, err
	}
	return st.Gap, data.ByEpisode(seen, func(episodes []data.Row) error {
		entropyByTurn(m, episodes)
		return nil
	})
}

func (t *Trainer) warnOfSkipped(step, skipped, done int) {
	t.log.Warn("optimiser steps that were not finite are left out", "step", step, "left_out", skipped,
		"of", skipped+done, "batches", t.run.BadSteps())
}

// measure computes what must be known of every row before its advantages are.
func (t *Trainer) measure(ctx context.Context, step int, rows []data.Row, m Metrics) (have measured, err error) {
	e, err := advantage.Estimators.Lookup(t.o.Estimator)
	if err != nil {
		return have, err
	}
	have.ref = t.kl != nil
	have.old = have.ref || e.Needs.SumPiSquared || t.o.Correction.on()
	both, err := t.valuesWithLogProbs(step, rows, have, e)
	if err != nil {
		return have, err
	}
	have.old = have.old || both
	if len(rows) > 0 && t.critic != nil && !both {
		err := t.engine.Exclusive(ctx, func() error {
			return t.passes(ctx, step, "values", rows, 1, m, func(ctx context.Context) error {
				return t.critic.Values(ctx, rows, t.o.Critic.Micro)
			})
		})
		if err != nil {
			return have, fmt.Errorf("values: %w", err)
		}
	}
	if len(rows) == 0 || !have.old {
		return have, nil
	}
	err = t.engine.Exclusive(ctx, func() error {
		p := t.o.Policy
		switch {
		case both:
			t.hand("old_log_prob", rows, 1)
			err = t.passes(ctx, step, "old_log_prob", rows, 1, m, func(ctx context.Context) error {
				return t.critic.ValuesAndLogProbs(ctx, rows, p.Micro, p.Temperature)
			})
		case e.Needs.SumPiSquared:
			t.hand("old_log_prob", rows, 1)
			err = t.passes(ctx, step, "old_log_prob", rows, 1, m, func(ctx context.Context) error {
				return learner.SumPiSquared(ctx, t.actor.Compute(), rows, p.Micro, p.Temperature)
			})
		default:
			err = t.oldLogProbs(ctx, step, rows, m)
		}
		if err == nil && have.ref {
			err = t.refLogProbs(ctx, step, rows, m)
		}
		return err
	})
	have.gap = learner.NewLogProbGap(rows, func(r *data.Row) []float32 { return r.OldLogProbs })
	return have, err
}

// valuesWithLogProbs reports whether the values of a step and its old log-probs
// come from one pass: the decoder of both is the actor's, and both are needed.
func (t *Trainer) valuesWithLogProbs(step int, rows []data.Row, have measured, e advantage.Estimator) (bool, error) {
	if t.critic == nil || !t.critic.Shared() || len(rows) == 0 || e.Needs.SumPiSquared {
		return false, nil
	}
	steps, err := t.o.Policy.Passes.OptimizerSteps(rows, t.o.Policy.MiniBatch)
	if err != nil {
		return false, err
	}
	updated := step > t.o.Critic.Warmup && t.o.Recorded == nil
	return have.old || updated && t.needsOldLogProbs(steps), nil
}

// needsOldLogProbs reports whether an update of so many optimiser steps takes
// log-probs from before the first.
func (t *Trainer) needsOldLogProbs(steps int) bool {
	return (steps > 1 || t.actor.Compute().Dropout() > 0) && t.o.Policy.Loss != loss.Bypass
}

// valueTerm is what a critic on the actor's decoder adds to its loss; nil where
// there is none.
func (t *Trainer) valueTerm(step int) *learner.ValueTerm {
	if t.critic == nil || !t.critic.Shared() {
		return nil
	}
	o := t.o.Critic
	return &learner.ValueTerm{Critic: t.critic, Coef: o.Coef, Clip: o.Clip, LR: o.Schedule.LR(step - 1), GradClip: o.GradClip}
}

// updateCritic takes the critic's share of a step; nothing where there is none.
// One on the actor's decoder has a share of its own in the warm-up alone.
func (t *Trainer) updateCritic(ctx context.Context, step int, rows []data.Row, m Metrics) error {
	if t.critic == nil || learner.LossTokens(rows) == 0 || t.critic.Shared() && step > t.o.Critic.Warmup {
		return nil
	}
	lr, o := t.o.Critic.Schedule.LR(step-1), *t.o.Critic
	o.Seed = rollout.EpisodeSeed(t.o.Seed, step, "", "critic", 0, 0)
	var st learner.CriticStats
	err := t.engine.Exclusive(ctx, func() error {
		return t.passes(ctx, step, "update_critic", rows, o.Passes.Count(), m, func(ctx context.Context) (err error) {
			back, err := t.fetchCritic(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, back()) }()
			st, err = t.critic.UpdateCritic(ctx, rows, lr, o)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("critic: %w", err)
	}
	st.AddTo(m, lr)
	t.utilization(m, "critic", "update_critic", learner.CostOf(t.critic.Compute(), 1).Update(rows, o.Passes))
	return nil
}

func (t *Trainer) oldLogProbs(ctx context.Context, step int, rows []data.Row, m Metrics) error {
	t.hand("old_log_prob", rows, 1)
	return t.passes(ctx, step, "old_log_prob", rows, 1, m, func(ctx context.Context) error {
		p := t.o.Policy
		return learner.LogProbs(ctx, t.actor.Compute(), rows, p.Micro, p.Temperature, func(r *data.Row) *[]float32 { return &r.OldLogProbs })
	})
}

func (t *Trainer) refLogProbs(ctx context.Context, step int, rows []data.Row, m Metrics) error {
	t.hand("ref", rows, 1)
	return t.passes(ctx, step, "ref", rows, 1, m, func(ctx context.Context) (err error) {
		back, err := t.fetchRef(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, back()) }()
		return learner.LogProbs(ctx, t.ref, rows, t.o.RefMicro, t.o.Policy.Temperature, func(r *data.Row) *[]float32 { return &r.RefLogProbs })
	})
}

// advantages turns rewards into advantages and returns the rows to learn from:
// the KL is taken off the rewards, advantages are estimated, rows without any
// are left out, rows are drawn anew, and what sampling and training disagree on
// is taken out of the loss.
func (t *Trainer) advantages(step int, rows []data.Row, m Metrics) ([]data.Row, error) {
	if t.kl != nil && len(rows) > 0 {
		mean, err := kl.InReward(rows, t.o.KLReward.Type, t.kl.Coef)
		if err != nil {
			return nil, err
		}
		m[track.CriticKL], m[track.CriticKLCoeff] = mean, t.kl.Coef
		spans, err := data.EpisodeSpans(rows)
		if err != nil {
			return nil, err
		}
		t.kl.Update(mean, len(spans))
	}
	if w := t.o.Correction.Weights; w != nil && t.o.Policy.Loss != loss.Bypass {
		if err := w.Apply(rows, m); err != nil {
			return nil, err
		}
	}
	e, err := advantage.Estimators.Lookup(t.o.Estimator)
	if err != nil {
		return nil, err
	}
	given := episodesIn(rows)
	if t.o.DropZeroSpread && (e.InGroup || e.Whole) {
		var singles int
		if rows, singles, err = DropSingles(rows); err != nil {
			return nil, err
		}
		m["group/dropped_rows"], m["group/single"] = float64(given-episodesIn(rows)), float64(singles)
	}
	o := t.o.EstimatorOpts
	o.InvalidActionPenalty = t.o.InvalidActionPenalty
	if err := advantage.Compute(t.o.Estimator, rows, o); err != nil {
		return nil, err
	}
	batchMetrics, err := BatchMetrics(rows)
	if err != nil {
		return nil, err
	}
	maps.Copy(m, batchMetrics)
	if t.o.DropZeroSpread && e.Grouped && !e.Whole {
		kept, groups, err := DropZeroSpread(rows, GroupMetrics[t.o.FilterMetric])
		if err != nil {
			return nil, err
		}
		m["group/dropped_rows"] = float64(given - episodesIn(kept))
		m["group/single"] = float64(groups.Single)
		rows = kept
	}
	if t.o.PFPPO != "" {
		if rows, err = advantage.Resample(rows, t.o.PFPPO, t.o.PFPPOPower, t.o.Seed, uint64(step)); err != nil {
			return nil, err
		}
	}
	if !t.o.Correction.on() {
		return rows, nil
	}
	if err := correction.Diagnose(rows, m); err != nil {
		return nil, err
	}
	if len(t.o.Correction.Rules) == 0 {
		return rows, nil
	}
	return correction.Reject(rows, t.o.Correction.Rules, m)
}

// diagnoseBypass writes the diagnostics of rows whose old log-probs nobody
// computed before the update: they are those that the loss saw in its first pass,
// each mini-batch's from before its own optimiser step. Rows of a step that was
// left out have none.
func diagnoseBypass(rows []data.Row, m Metrics) error {
	seen, err := whole(rows, func(r *data.Row) *[]float32 { return &r.OldLogProbs })
	if err != nil {
		return err
	}
	return correction.Diagnose(seen, m)
}

// whole returns the episodes that have a field in every context with a token in
// the loss, with zeros in the others. An update leaves it out of the rows of an
// optimiser step that was left out.
func whole(rows []data.Row, field func(*data.Row) *[]float32) ([]data.Row, error) {
	spans, err := data.EpisodeSpans(rows)
	if err != nil {
		return nil, err
	}
	var seen []data.Row
	for _, span := range spans {
		episode := slices.Clone(rows[span[0]:span[1]])
		lacks := func(r data.Row) bool { return *field(&r) == nil && learner.LossTokens([]data.Row{r}) > 0 }
		if slices.ContainsFunc(episode, lacks) {
			continue
		}
		for i := range episode {
			if values := field(&episode[i]); *values == nil {
				*values = make([]float32, len(episode[i].Tokens))
			}
		}
		seen = append(seen, episode...)
	}
	return seen, nil
}

func (t *Trainer) updateActor(ctx context.Context, step int, rows []data.Row, lr float64, p learner.PolicyOptions, have measured, m Metrics) (st learner.PolicyStats, err error) {
	var gap learner.LogProbGap
	steps, err := p.Passes.OptimizerSteps(rows, p.MiniBatch)
	if err != nil {
		return st, err
	}
	p.Recorded = t.o.Recorded != nil && !t.o.Correction.on()
	switch {
	case p.Recorded:
		if gap, err = t.recordedLogProbs(ctx, step, rows, have, m); err != nil {
			return st, err
		}
	case t.needsOldLogProbs(steps) && !have.old:
		if err := t.oldLogProbs(ctx, step, rows, m); err != nil {
			return st, err
		}
	}
	if p.KLCoef != 0 && p.KLType != kl.Full && !have.ref {
		if err := t.refLogProbs(ctx, step, rows, m); err != nil {
			return st, err
		}
	}
	t.hand("update_actor", rows, p.Passes.Count())
	err = t.passes(ctx, step, "update_actor", rows, p.Passes.Count(), m, func(ctx context.Context) (err error) {
		back, err := t.fetchForUpdate(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, back()) }()
		st, err = t.actor.UpdateActor(ctx, rows, lr, p)
		return err
	})
	if p.Recorded {
		st.Gap = gap
	}
	return st, err
}
