package reward

import (
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// Signal reduces an episode's per-turn rewards to its score.
type Signal func(turns []data.Turn) float64

// Signals holds the signals by name.
var Signals = registry.New[Signal]("reward signal")

func init() { Signals.Register("last", Last) }

// Last is the reward of the last step, as AgentGym's own evaluator takes it:
// sciworld and babyai hand back running scores, so a sum would count twice. An
// episode without a step scores 0.
func Last(turns []data.Turn) float64 {
	if len(turns) == 0 {
		return 0
	}
	return turns[len(turns)-1].Reward
}
