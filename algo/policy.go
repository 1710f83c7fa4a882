package algo

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// PolicyGradient plays episodes and makes the update of Options.Update.
type PolicyGradient struct{}

// policyGradient is the method of PolicyGradient.
type policyGradient struct {
	player
	klReward *kl.Controller     // controller of the KL in the reward; nil: off
	recorded bool               // the old log-probs were recorded when the episodes were played, by other weights
	stale    bool               // other weights than those before the update sampled a part of the step
	gap      learner.LogProbGap // gap between sampling and training in the current step
}

func (PolicyGradient) open(c *core) (Method, error) { return newPolicyGradient(c) }

func newPolicyGradient(c *core) (*policyGradient, error) {
	o := &c.o.Update
	if err := o.validate(c.o.Play); err != nil {
		return nil, err
	}
	if o.needsReference() && c.Ref == nil {
		return nil, errors.New("the KL needs a reference")
	}
	if (o.Critic != nil) != (c.Critic != nil) {
		return nil, errors.New("Parts.Critic and the options of the critic must be both set or both unset")
	}
	if c.Critic != nil && c.Critic.Shared() && c.Critic.Actor != c.Actor {
		return nil, errors.New("the critic is on the decoder of another actor")
	}
	o.Policy.Reference = c.Ref
	player, err := newPlayer(c)
	p := &policyGradient{player: player, recorded: o.Policy.Loss != loss.Bypass && c.o.AsyncSteps > 0}
	if o.KLReward != nil {
		controller := o.KLReward.Controller
		p.klReward = &controller
	}
	return p, err
}

// Restore continues from the state, which holds the coefficient of the KL in the
// reward.
func (p *policyGradient) Restore(dir string) error {
	if coef := p.state.KLCoef; coef != nil && p.klReward != nil {
		p.klReward.Coef = *coef
	}
	return p.player.Restore(dir)
}

// Finish copies the coefficient of the KL penalty to the run's state and ends the step.
func (p *policyGradient) Finish(step int, b Batch, seconds float64, m Metrics) error {
	if p.klReward != nil {
		coef := p.klReward.Coef
		p.state.KLCoef = &coef
	}
	return p.player.Finish(step, b, seconds, m)
}

// GapError reports a difference between the log-probs of sampling and training above
// the limit.
type GapError struct {
	Got, Limit float64
}

// Error implements error.
func (e *GapError) Error() string {
	return fmt.Sprintf("log-probs of sampling and training differ by %.3g on average, more than rollout.max_logprob_gap = %.3g: "+
		"train in float32 (model.compute_dtype = \"float32\") or raise the limit", e.Got, e.Limit)
}

// Check warns of a gap above the limit, or returns a GapError with FailOnGap.
func (p *policyGradient) Check(step int) error {
	if p.o.MaxGap <= 0 || p.gap.Mean <= p.o.MaxGap || p.stale {
		return nil
	}
	err := &GapError{Got: p.gap.Mean, Limit: p.o.MaxGap}
	if p.o.FailOnGap {
		return err
	}
	p.Log.Warn(err.Error(), "step", step)
	return nil
}

// Learn estimates advantages and updates critic and actor. It changes nothing if no
// row is left to learn from.
func (p *policyGradient) Learn(ctx context.Context, step int, b Batch, m Metrics) error {
	p.stale = m[track.Staleness+"_max"] > 0
	old, err := p.measure(ctx, step, b.Rows, m)
	if err != nil {
		return err
	}
	var rows []data.Row
	err = p.phase(step, "adv", 0, m, func() error {
		rows, err = p.advantages(step, b.Rows, m)
		return err
	})
	if err != nil {
		return err
	}
	if err := p.updateCritic(ctx, step, rows, m); err != nil {
		return err
	}
	warmup := 0 // steps of the critic's warm-up; the actor's schedule begins after them
	if p.Critic != nil {
		warmup = p.o.Critic.Warmup
	}
	if step <= warmup {
		return nil
	}
	lr := p.o.Schedule.LR(step - 1 - warmup)
	m[track.ActorLR] = lr
	m[track.UpdatedRows] = float64(episodesIn(rows))
	switch {
	case len(rows) == 0:
		p.Log.Warn("no group has episodes of different scores: the step learns nothing", "step", step)
		return nil
	case learner.LossTokens(rows) == 0:
		p.Log.Warn("every token was rejected: the step learns nothing; sampling and training differ by more than "+
			"algo.rollout_correction.rollout_rs_threshold allows", "step", step)
		return nil
	}
	o := p.o.Policy
	o.Value = p.valueTerm(step)
	o.Seed = rollout.EpisodeSeed(p.o.Seed, step, "", "policy loss", 0, 0)
	st, err := p.updateActor(ctx, step, rows, lr, o, old, m)
	if err != nil {
		return err
	}
	p.newWeights()
	st.AddTo(m, o)
	if o.Loss == loss.Bypass && !p.o.Correction.on() {
		if err := diagnoseBypass(rows, m); err != nil {
			return err
		}
	}
	if o.Value != nil {
		st.Value.AddTo(m, o.Value.LR)
	}
	p.utilization(m, "actor", "update_actor", p.actorCost().Update(rows, o.Passes))
	if st.Skipped > 0 {
		p.warnOfSkipped(step, st.Skipped, st.Steps)
	}
	seen, err := completeEpisodes(rows, learner.Entropies)
	if err != nil {
		return err
	}
	return data.ByEpisode(seen, func(episodes []data.Row) error {
		entropyByTurn(m, episodes)
		return nil
	})
}

// measure computes the values and log-probs that the advantages need. It reports whether
// the rows have the log-probs from before the update, and sets gap if they do.
func (p *policyGradient) measure(ctx context.Context, step int, rows []data.Row, m Metrics) (old bool, err error) {
	p.gap = learner.LogProbGap{}
	old = p.klReward != nil || p.estimator.Needs.SumPiSquared || p.o.Correction.on()
	if len(rows) == 0 {
		return old, nil
	}
	both, err := p.valuesWithLogProbs(step, rows, old)
	if err != nil {
		return false, err
	}
	old = old || both
	if p.Critic != nil && !both {
		err := p.passes(ctx, step, "values", rows, 1, m, func(ctx context.Context) error {
			return p.Critic.Values(ctx, rows, p.o.Critic.Micro)
		})
		if err != nil {
			return false, fmt.Errorf("values: %w", err)
		}
	}
	if !old {
		return false, nil
	}
	err = p.passes(ctx, step, "old_log_prob", rows, 1, m, func(ctx context.Context) error {
		o := p.o.Policy
		switch {
		case both:
			return p.Critic.ValuesAndLogProbs(ctx, rows, o.Micro, o.Temperature)
		case p.estimator.Needs.SumPiSquared:
			return learner.SumPiSquared(ctx, p.Actor.Compute(), rows, o.Micro, o.Temperature)
		}
		return learner.LogProbs(ctx, p.Actor.Compute(), rows, o.Micro, o.Temperature, learner.OldLogProbs)
	})
	if err == nil && p.klReward != nil {
		err = p.refLogProbs(ctx, step, rows, m)
	}
	p.gap = learner.NewLogProbGap(rows)
	return true, err
}

// valuesWithLogProbs reports whether one pass computes the values and the old
// log-probs of a step: the critic is shared, and the step needs both. The
// argument old is true if the advantages need the old log-probs.
func (p *policyGradient) valuesWithLogProbs(step int, rows []data.Row, old bool) (bool, error) {
	if p.Critic == nil || !p.Critic.Shared() || p.estimator.Needs.SumPiSquared {
		return false, nil
	}
	steps, err := p.o.Policy.Passes.OptimizerSteps(rows, p.o.Policy.MiniBatch)
	if err != nil {
		return false, err
	}
	updated := step > p.o.Critic.Warmup && !p.recorded
	return old || updated && p.needsOldLogProbs(steps), nil
}

// needsOldLogProbs reports whether an update with this number of optimiser steps needs a
// pass before it that computes the old log-probs.
func (p *policyGradient) needsOldLogProbs(steps int) bool {
	return (steps > 1 || p.Actor.Compute().Dropout() > 0) && p.o.Policy.Loss != loss.Bypass
}

// valueTerm returns the value loss that a shared critic adds to the actor's loss; nil
// without a shared critic.
func (p *policyGradient) valueTerm(step int) *learner.ValueTerm {
	if p.Critic == nil || !p.Critic.Shared() {
		return nil
	}
	o := p.o.Critic
	return &learner.ValueTerm{Critic: p.Critic, Coef: o.Coef, Clip: o.Clip, LR: o.Schedule.LR(step - 1), GradClip: o.GradClip}
}

// updateCritic updates the critic, if there is one. A shared critic has a separate update
// only in the warm-up.
func (p *policyGradient) updateCritic(ctx context.Context, step int, rows []data.Row, m Metrics) error {
	if p.Critic == nil || learner.LossTokens(rows) == 0 || p.Critic.Shared() && step > p.o.Critic.Warmup {
		return nil
	}
	lr, o := p.o.Critic.Schedule.LR(step-1), *p.o.Critic
	o.Seed = rollout.EpisodeSeed(p.o.Seed, step, "", "critic", 0, 0)
	var st learner.CriticStats
	err := p.passes(ctx, step, "update_critic", rows, o.Passes.Count(), m, func(ctx context.Context) error {
		return p.withCritic(ctx, func() (err error) {
			st, err = p.Critic.UpdateCritic(ctx, rows, lr, o)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("critic: %w", err)
	}
	st.AddTo(m, lr)
	p.utilization(m, "critic", "update_critic", learner.CostOf(p.Critic.Compute(), 1).Update(rows, o.Passes))
	return nil
}

func (p *policyGradient) refLogProbs(ctx context.Context, step int, rows []data.Row, m Metrics) error {
	return p.passes(ctx, step, "ref", rows, 1, m, func(ctx context.Context) error {
		return p.withRef(ctx, func() error {
			return learner.LogProbs(ctx, p.Ref, rows, p.o.RefMicro, p.o.Policy.Temperature, learner.RefLogProbs)
		})
	})
}

// updateActor computes the log-probs that the update still needs and does the update. For
// recorded episodes the recorded log-probs become the old ones, except with rollout
// correction, which weighs the difference between recorded and computed log-probs.
func (p *policyGradient) updateActor(ctx context.Context, step int, rows []data.Row, lr float64, o learner.PolicyOptions, old bool, m Metrics) (st learner.PolicyStats, err error) {
	steps, err := o.Passes.OptimizerSteps(rows, o.MiniBatch)
	if err != nil {
		return st, err
	}
	o.Recorded = p.recorded && !p.o.Correction.on()
	if !old && (o.Recorded || p.needsOldLogProbs(steps)) {
		err := p.passes(ctx, step, "old_log_prob", rows, 1, m, func(ctx context.Context) error {
			return learner.LogProbs(ctx, p.Actor.Compute(), rows, o.Micro, o.Temperature, learner.OldLogProbs)
		})
		if err != nil {
			return st, err
		}
	}
	if o.Recorded {
		if !old {
			p.gap = learner.NewLogProbGap(rows)
		}
		for i := range rows {
			rows[i].OldLogProbs = rows[i].RolloutLogProbs
		}
	}
	if o.KLCoef != 0 && o.KLType != kl.Full && p.klReward == nil {
		if err := p.refLogProbs(ctx, step, rows, m); err != nil {
			return st, err
		}
	}
	err = p.passes(ctx, step, "update_actor", rows, o.Passes.Count(), m, func(ctx context.Context) error {
		return p.withUpdate(ctx, func() (err error) {
			st, err = p.Actor.UpdateActor(ctx, rows, lr, o)
			return err
		})
	})
	if old || o.Recorded { // measure has computed the gap of all rows and tokens, before some were left out
		st.Gap = p.gap
	}
	p.gap = st.Gap
	return st, err
}
