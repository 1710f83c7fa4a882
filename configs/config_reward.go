package configs

import (
	"github.com/openmanus/openmanus/data/registry"
)

// Reward sets the score of an episode and its allocation to tokens.
type Reward struct {
	Signal      string  `toml:"signal"`
	Allocation  string  `toml:"allocation"`
	Gamma       float64 `toml:"gamma"`
	TurnPenalty float64 `toml:"turn_penalty"`

	InvalidActionPenalty float64 `toml:"invalid_action_penalty"`

	ScoreFn        string  `toml:"score_fn"`
	FormatScore    float64 `toml:"format_score"`
	MinAnswerTags  int     `toml:"min_answer_tags"`
	ScoreTimeoutS  float64 `toml:"score_timeout_s"`
	ScoreBatchSize int     `toml:"score_batch_size"`

	ModelPath           string `toml:"model_path"`
	ModelMicroBatchSize int    `toml:"model_micro_batch_size"`
	ModelMaxTokens      int    `toml:"model_max_tokens"`
	ModelOffloadParams  bool   `toml:"model_offload_params"`

	Components []Component `toml:"components"`
}

// Component is one [reward.components.NAME] table: a score function with its
// weight and parameters.
type Component struct {
	Name   string  `toml:"-"`
	Fn     string  `toml:"fn"`
	Weight float64 `toml:"weight"`

	// Params has the parameters of all score functions; the function Fn reads only its own parameters.
	Params registry.Values `toml:"-"`
}
