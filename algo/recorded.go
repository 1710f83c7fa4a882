package algo

// Training from a dump: the update of update.go over episodes that were played
// before, with
//
//	ρ = exp(log π(y_t) - log π_rec(y_t))
//
// where π_rec is what was recorded when the token was sampled, under the
// rollout's temperature. In the first step, with the weights that played, π is
// π_rec but for float noise. From the second step on the weights are others
// than those that played, and with OffPolicy from the first: the clip of ρ is
// all that bounds the error (PPO's argument, arXiv:1707.06347, section 3, holds
// near the policy that played).
//
// Differs from the update after a rollout in the old log-probs alone, which
// are otherwise those of a forward pass with the weights before the update.

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/data"
)

// RecordedSteps makes the steps of training from a dump: the groups of
// episodes, by their uid in order of appearance, so many a step, every group
// once. Episodes that failed for a reason outside of them are left out.
func RecordedSteps(episodes []*data.Episode, groups int) ([][]*data.Episode, error) {
	if groups < 1 {
		return nil, fmt.Errorf("%d groups a step, want at least 1", groups)
	}
	byUID := map[string][]*data.Episode{}
	var order []string
	compared := false
	for _, e := range episodes {
		if !e.Outcome.Trainable() || e.SampledTokens() == 0 {
			continue
		}
		if byUID[e.UID] == nil {
			order = append(order, e.UID)
		}
		byUID[e.UID] = append(byUID[e.UID], e)
		compared = compared || len(byUID[e.UID]) > 1
	}
	if !compared {
		return nil, errors.New("no task has two episodes that can be compared: roll out with --samples 2 or more")
	}
	var steps [][]*data.Episode
	for i, uid := range order {
		if i%groups == 0 {
			steps = append(steps, nil)
		}
		steps[len(steps)-1] = append(steps[len(steps)-1], byUID[uid]...)
	}
	return steps, nil
}

// recorded are the episodes of a step and the rows to learn from, none of them
// played now.
func (t *Trainer) recorded(ctx context.Context, step int, m Metrics) (episodes []*data.Episode, rows []data.Row, err error) {
	episodes = t.o.Recorded[step-1]
	for name, x := range rollout.Metrics(episodes) {
		m[name] = x
	}
	if n := m["group/different_starts"]; n > 0 {
		t.log.Warn("the dump compares episodes that began differently: their servers showed different tasks under one index, or each reset begins differently",
			"step", step, "groups", n)
	}
	mixtureMetrics(m, t.envs, episodes)
	var found scored
	err = t.phase(step, "reward", 0, m, func() (err error) {
		rows, err = t.score(ctx, episodes, &found)
		return err
	})
	found.metrics(m)
	return episodes, rows, err
}

// offPolicy reports whether the weights at the beginning of a step are known to
// be others than those that played.
func (t *Trainer) offPolicy(step int) bool { return t.o.Recorded != nil && (t.o.OffPolicy || step > 1) }

// recordedLogProbs makes the recorded log-probs the old ones, and measures how
// far the weights before the update are from those that played. A rollout
// correction does without: it keeps the two apart, and weighs the difference.
func (t *Trainer) recordedLogProbs(ctx context.Context, step int, rows []data.Row, have measured, m Metrics) (gap learner.LogProbGap, err error) {
	if !have.old {
		if err := t.oldLogProbs(ctx, step, rows, m); err != nil {
			return gap, err
		}
	}
	gap = learner.NewLogProbGap(rows, func(r *data.Row) []float32 { return r.OldLogProbs })
	for i := range rows {
		rows[i].OldLogProbs = rows[i].RolloutLogProbs
	}
	return gap, nil
}
