package configs

import (
	"cmp"
	"slices"

	"github.com/openmanus/openmanus/data/registry"
)

// The keys of the reward.

func (s *Schema) rewardKeys() []entry {
	return []entry{
		ready("reward.signal", "last", "reduction of an episode's rewards to one number: the last reward, their sum, their maximum, or the environment's score (babyai, sciworld)", oneOf(registry.NamesOf(s.words.Signals, nil)), policyGradient),
		ready("reward.allocation", "last_token", "distribution of the reward over tokens (docs/rewards.md)", oneOf(registry.NamesOf(s.words.Allocations, nil)), policyGradient),
		ready("reward.gamma", 1, "discount per token, for the allocation discounted", aboveTo(0, 1), policyGradient, among("reward.allocation", "discounted")),
		ready("reward.turn_penalty", 0, "subtracted from an episode's score for every turn, in the comparison with its group, so that the shorter of two successful episodes is better", atLeast(0), policyGradient),
		ready("reward.invalid_action_penalty", 0, "subtracted for every turn without a valid action: from the episode's score, under gigpo from that turn alone", atLeast(0), policyGradient),
		ready("reward.score_fn", "", "score function; empty: the environment's signal, or reward.components", s.scoreFn(), policyGradient),
		ready("reward.format_score", 0, "score of a well-formed wrong answer", registry.Finite, s.scoreFnReads("format_score")),
		ready("reward.min_answer_tags", -1, "minimum <answer> tags in a reply; -1: the default of score_fn", orOff, s.scoreFnReads("min_answer_tags")),
		ready("reward.score_timeout_s", 60, "timeout of an http://, https:// or exec: function for one batch, in seconds", aboveTo(0, 86400), externalReward),
		ready("reward.score_batch_size", 256, "episodes in one request to an http://, https:// or exec: function", between(1, 65536), externalReward),
		ready("reward.model_path", "", "reward model of the score function model: the folder of a *ForSequenceClassification checkpoint with one label", anything, modelReward),
		ready("reward.model_micro_batch_size", 8, "episodes per pass of the reward model; affects memory and speed, not the result", atLeast(1), modelReward),
		ready("reward.model_max_tokens", 0, "maximum tokens of an episode, from its start, that the reward model reads; 0: as many as the reward model has positions", atLeast(0), modelReward),
		ready("reward.model_offload_params", false, "keep the reward model in host memory except while it scores", anything, modelReward),
	}
}

func (s *Schema) componentKeys() []entry {
	selects := func(fns ...string) use {
		return use{{"fn = " + alternatives(fns), func(c *Config, i int) bool {
			p := c.Reward.Components[i]
			return slices.Contains(fns, cmp.Or(p.Fn, p.Name))
		}}}
	}
	return under(policyGradient, append([]entry{
		ready(components+"fn", "", "score function; empty: the function with the component's name", s.scoreFn()),
		ready(components+"weight", 1, "weight of the component's score in the sum", registry.Finite),
	}, s.scores.keys(selects)...)...)
}
