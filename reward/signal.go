package reward

import (
	"math"
	"slices"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// Signal reduces an episode's per-turn rewards to its score. Callers use Of, which
// prepares the turns.
type Signal func(turns []data.Turn) float64

// Of returns the signal of an episode's turns, or of the first turns of an episode:
//
//   - only turns with an environment step count: a truncated reply has no reward,
//     rather than a reward of 0;
//   - with running scores, a rejected action leaves the score unchanged. AgentGym's
//     clients return reward 0 for the action, and the turn records this 0.
func (s Signal) Of(e *data.Episode) Signal {
	if e.Cumulative {
		return func(turns []data.Turn) float64 { return s(carried(judged(turns))) }
	}
	return func(turns []data.Turn) float64 { return s(judged(turns)) }
}

// carried returns turns of running scores in which the reward of a rejected action
// is replaced by the score before it.
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

// judged returns the turns with an environment step.
func judged(turns []data.Turn) []data.Turn {
	cut := func(t data.Turn) bool { return t.Unjudged }
	if !slices.ContainsFunc(turns, cut) {
		return turns
	}
	return slices.DeleteFunc(slices.Clone(turns), cut)
}

// Signals holds the signals by name. env_score is the environment's own score after
// the last step. For servers with a score (babyai, sciworld), AgentGym's clients
// return this score as the reward, so env_score is the last reward. The
// configuration rejects env_score for environments without a score.
//
// env_score differs from OpenManus-RL in: upstream reads info.score, which no
// client sets, so its score is always 0 (spec 3.2).
var Signals = registry.New[Signal]("reward signal")

func init() {
	Signals.Register("last", Last)
	Signals.Register("sum", Sum)
	Signals.Register("max", Max)
	Signals.Register("env_score", Last)
}

// Last returns the reward of the last step, as AgentGym's own evaluator does.
// sciworld and babyai return running scores, whose sum would count points twice.
// An episode without a step scores 0.
func Last(turns []data.Turn) float64 {
	if len(turns) == 0 {
		return 0
	}
	return turns[len(turns)-1].Reward
}

// Sum returns the sum of all steps' rewards, for environments with independent
// rewards per step. The configuration rejects it for running scores.
func Sum(turns []data.Turn) float64 {
	s := 0.0
	for _, t := range turns {
		s += t.Reward
	}
	return s
}

// Max returns the largest reward of any step.
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
