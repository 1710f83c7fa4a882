package configs

import "github.com/openmanus/openmanus/data/registry"

// The keys of what an episode is worth.

func (s *Schema) rewardKeys() []entry {
	return []entry{
		ready("reward.signal", "which of an episode's rewards counts: the last step's, the sum or the largest of all, or the environment's own score (babyai, sciworld)", oneOf(registry.NamesOf(s.words.Signals, nil))),
		ready("reward.allocation", "which tokens are paid", oneOf(registry.NamesOf(s.words.Allocations, nil))),
		ready("reward.gamma", "discount per token of allocation discounted", aboveTo(0, 1)),
		ready("reward.turn_penalty", "taken off an episode's score for every turn it took, when it is compared with its group: of two that succeed the shorter is better", atLeast(0)),
		ready("reward.invalid_action_penalty", "taken off for every turn without a valid action: off the episode's score, under gigpo off that turn alone", atLeast(0)),
		ready("reward.score_fn", "score function; empty: the environment's signal, or reward.components", s.scoreFn()),
		ready("reward.format_score", "score_fn's score of a well-formed wrong answer", registry.Finite),
		ready("reward.min_answer_tags", "<answer> tags that score_fn wants in a reply; -1: the function's own number", orOff),
		ready("reward.score_timeout_s", "seconds that an http://, https:// or exec: function may take for one batch", aboveTo(0, 86400)),
		ready("reward.score_batch_size", "episodes in one request to an http://, https:// or exec: function", between(1, 65536)),
		ready("reward.model_path", "reward model of the score function model: a folder of a *ForSequenceClassification with one label", anything),
		ready("reward.model_micro_batch_size", "episodes per pass of the reward model; changes memory and speed, not the result", atLeast(1)),
		ready("reward.model_max_tokens", "tokens of an episode that the reward model reads, from its beginning; 0: as many as it has positions", atLeast(0)),
		ready("reward.model_offload_params", "keep the reward model in host memory but while it scores", anything),
	}
}

func (s *Schema) componentKeys() []entry {
	return append([]entry{
		ready(components+"fn", "score function; empty: the one that has the component's name", s.scoreFn()),
		ready(components+"weight", "what its score is multiplied with before all are added", registry.Finite),
	}, s.scores.keys()...)
}
