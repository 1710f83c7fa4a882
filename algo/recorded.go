package algo

// Training from a dump: the policy-gradient update over recorded episodes, with
//
//	ρ = exp(log π(y_t) - log π_rec(y_t))
//
// where π_rec was recorded when the token was sampled, at the rollout's temperature. In
// the first step, with the weights that played the episodes, π equals π_rec up to rounding.
// From the second step on, and with OffPolicy from the first, the weights differ, and only
// the clip of ρ bounds the error (PPO's argument, arXiv:1707.06347, section 3, is valid
// near the policy that played the episodes).
//
// Differs from PolicyGradient only in the old log-probs: PolicyGradient computes them in
// a forward pass before the update.

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// RecordedSteps divides the groups of a dump, in the order of the first episode of each,
// into steps of the given number of groups. It leaves out episodes that were
// lost to the infrastructure, and returns an error if no group has two episodes.
func RecordedSteps(episodes []*data.Episode, groups int) ([][]*data.Episode, error) {
	if groups < 1 {
		return nil, fmt.Errorf("%d groups in a step, want at least 1", groups)
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
		return nil, errors.New("no task has two episodes to compare: roll out with --samples 2 or more")
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

// Recorded makes every step a policy-gradient update on recorded episodes. Only validations play.
type Recorded struct {
	Steps     [][]*data.Episode // result of RecordedSteps
	OffPolicy bool              // weights other than the initial weights played the episodes
}

type recorded struct {
	policyGradient
	Recorded
}

func (o Recorded) open(c *core) (Method, error) {
	p, err := newPolicyGradient(c)
	if err != nil {
		return nil, err
	}
	p.recorded = true
	return &recorded{*p, o}, nil
}

// Steps returns the number of training steps.
func (r *recorded) Steps() int { return r.policyGradient.Steps() }

// Collect scores the recorded episodes of the step.
func (r *recorded) Collect(ctx context.Context, step int, m Metrics) (b Batch, err error) {
	b.Episodes = r.Recorded.Steps[step-1]
	maps.Copy(m, rollout.Metrics(b.Episodes))
	if n := m[track.DifferentStarts]; n > 0 {
		r.Log.Warn("the dump compares episodes with different first observations: their servers showed different tasks under one index, or each reset starts differently",
			"step", step, "groups", n)
	}
	mixtureMetrics(m, r.Envs, b.Episodes)
	var found scored
	err = r.phase(step, "reward", 0, m, func() (err error) {
		b.Rows, err = r.score(ctx, b.Episodes, &found)
		return err
	})
	found.addTo(m)
	return b, err
}

// Check ignores the gap of a step if its weights differ from the weights that sampled the
// episodes.
func (r *recorded) Check(step int) error {
	if r.OffPolicy || step > 1 {
		return nil
	}
	return r.policyGradient.Check(step)
}
