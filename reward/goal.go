package reward

import "github.com/openmanus/openmanus/data/registry"

// The environment's reward, reduced to one number by the signal.
//
// Source: goal_reward in OpenManus-RL's documentation, weight 1 (spec 6.1).
func init() {
	Functions.Add(registry.Entry{Name: "goal", Doc: "the environment's own reward, as reward.signal reduces it"}, Function{Score: func(_ registry.Values, s *Sample) (Score, error) {
		return Score{Value: s.EnvReward, Turns: s.TurnRewards}, nil
	}})
}
