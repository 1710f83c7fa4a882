package configs

import "github.com/openmanus/openmanus/data/registry"

// The keys of the reward.

func (s *Schema) rewardKeys() []entry {
	return []entry{
		ready("reward.signal", "reduction of an episode's rewards to one: that of the last step, their sum, their maximum, or the environment's own score (babyai, sciworld)", oneOf(registry.NamesOf(s.words.Signals, nil))),
		ready("reward.allocation", "distribution of the reward over tokens (docs/rewards.md)", oneOf(registry.NamesOf(s.words.Allocations, nil))),
		ready("reward.gamma", "discount per token, for the allocation discounted", aboveTo(0, 1)),
		ready("reward.turn_penalty", "subtracted from an episode's score for every turn, in the comparison with its group, so that the shorter of two successful episodes is better", atLeast(0)),
		ready("reward.invalid_action_penalty", "subtracted for every turn without a valid action: from the episode's score, under gigpo from that turn alone", atLeast(0)),
		ready("reward.score_fn", "score function; empty: the environment's signal, or reward.components", s.scoreFn()),
		ready("reward.format_score", "score of a well-formed wrong answer", registry.Finite),
		ready("reward.min_answer_tags", "minimum <answer> tags in a reply; -1: the default of score_fn", orOff),
		ready("reward.score_timeout_s", "timeout of an http://, https:// or exec: function for one batch, in seconds", aboveTo(0, 86400)),
		ready("reward.score_batch_size", "episodes in one request to an http://, https:// or exec: function", between(1, 65536)),
		ready("reward.model_path", "reward model of the score function model: the folder of a *ForSequenceClassification checkpoint with one label", anything),
		ready("reward.model_micro_batch_size", "episodes per pass of the reward model; affects memory and speed, not the result", atLeast(1)),
		ready("reward.model_max_tokens", "maximum tokens of an episode, from its start, that the reward model reads; 0: its number of positions", atLeast(0)),
		ready("reward.model_offload_params", "keep the reward model in host memory except while it scores", anything),
	}
}

func (s *Schema) componentKeys() []entry {
	return append([]entry{
		ready(components+"fn", "score function; empty: the function with the component's name", s.scoreFn()),
		ready(components+"weight", "weight of its score in the sum of the components", registry.Finite),
	}, s.scores.keys()...)
}
