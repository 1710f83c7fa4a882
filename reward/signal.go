package reward

import (
	"math"
	"slices"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// Signal reduces an episode's per-turn rewards to its score. It is not asked
// for an episode's turns as they are, but by Of.
type Signal func(turns []data.Turn) float64

// Of is the signal of an episode's turns, the first of them or all, as the
// environment's rewards are meant:
//
//   - over the turns that it judged: a reply that was cut off has no reward, not
//     one of 0;
//   - where rewards are running scores, a refused action leaves the score as it
//     is. AgentGym's clients answer one with reward 0, and the turn says so too.
func (s Signal) Of(e *data.Episode) Signal {
	if e.Cumulative {
		return func(turns []data.Turn) float64 { return s(carried(judged(turns))) }
	}
	return func(turns []data.Turn) float64 { return s(judged(turns)) }
}

// carried are turns of running scores with the score that stood when an action
// was refused in the place of its reward.
func carried(turns []data.Turn) []data.Turn {
	if !slices.ContainsFunc(turns, func(t data.Turn) bool { return t.Refused }) {
		return turns
	}
	turns = slices.Clone(turns)
	score := 0.0
	for i := range turns {
		if t := &turns[i]; t.Refused {
			t.Reward = score
		} else {
			score = t.Reward
		}
	}
	return turns
}

// judged are the turns that the environment judged.
func judged(turns []data.Turn) []data.Turn {
	cut := func(t data.Turn) bool { return t.Unjudged }
	if !slices.ContainsFunc(turns, cut) {
		return turns
	}
	return slices.DeleteFunc(slices.Clone(turns), cut)
}

// Signals holds the signals by name.
var Signals = registry.New[Signal]("reward signal")

func init() {
	Signals.Register("last", Last)
	Signals.Register("sum", Sum)
	Signals.Register("max", Max)
	Signals.Register("env_score", EnvScore)
}

// Last is the reward of the last step, as AgentGym's own evaluator takes it:
// sciworld and babyai hand back running scores, so a sum would count twice. An
// episode without a step scores 0.
func Last(turns []data.Turn) float64 {
	if len(turns) == 0 {
		return 0
	}
	return turns[len(turns)-1].Reward
}

// Sum is the sum of all steps' rewards, for environments that pay each step
// for itself. The configuration refuses it for running scores.
func Sum(turns []data.Turn) float64 {
	s := 0.0
	for _, t := range turns {
		s += t.Reward
	}
	return s
}

// Max is the largest reward of any step: what was reached, whatever came after.
func Max(turns []data.Turn) float64 {
	if len(turns) == 0 {
		return 0
	}
	m := math.Inf(-1)
	for _, t := range turns {
		m = max(m, t.Reward)
	}
	return m
}

// EnvScore is the score that the environment itself keeps, as it stood after
// the last step. AgentGym's clients hand that score on in place of the reward
// where a server has one (babyai, sciworld), so it is the last reward there;
// the configuration refuses the signal for environments without a score.
//
// Differs from OpenManus-RL in: its env_score reads info.score, which no
// client fills, and is always 0 (spec 3.2).
func EnvScore(turns []data.Turn) float64 { return Last(turns) }
