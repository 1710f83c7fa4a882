package configs

import (
	"github.com/openmanus/openmanus/data/registry"
)

// Rollout sets the sampling of replies.
type Rollout struct {
	Engine           string     `toml:"engine"`
	GroupSize        int        `toml:"group_size"`
	Temperature      float64    `toml:"temperature"`
	TopP             float64    `toml:"top_p"`
	TopK             int        `toml:"top_k"`
	MaxNewTokens     int        `toml:"max_new_tokens"`
	MaxContextTokens int        `toml:"max_context_tokens"`
	MaxSequences     int        `toml:"max_sequences"`
	MaxBatchTokens   int        `toml:"max_batch_tokens"`
	PrefixCaching    bool       `toml:"enable_prefix_caching"`
	KVCacheFraction  float64    `toml:"kv_cache_fraction"`
	GPUUtilization   float64    `toml:"gpu_memory_utilization"`
	FreeCache        bool       `toml:"free_cache_engine"`
	EnforceEager     bool       `toml:"enforce_eager"`
	WeightDType      string     `toml:"weight_dtype"`
	TensorParallel   int        `toml:"tensor_parallel_size"`
	IgnoreEOS        bool       `toml:"ignore_eos"`
	Deterministic    bool       `toml:"deterministic"`
	MaxLogprobGap    float64    `toml:"max_logprob_gap"`
	FailOnLogprobGap bool       `toml:"fail_on_logprob_gap"`
	Val              RolloutVal `toml:"val"`
	API              RolloutAPI `toml:"api"`
}

// RolloutAPI sets the endpoint if Rollout.Engine is openai.
type RolloutAPI struct {
	BaseURL     string  `toml:"base_url"`
	Model       string  `toml:"model"`
	KeyEnv      string  `toml:"key_env"`
	Concurrency int     `toml:"concurrency"`
	TimeoutS    float64 `toml:"timeout_s"`
	Retries     int     `toml:"retries"`
}

// RolloutVal sets the sampling of validations; temperature 0 is greedy.
type RolloutVal struct {
	Temperature float64 `toml:"temperature"`
	GroupSize   int     `toml:"group_size"`
}

// FreesKV reports whether an update on a GPU has the memory of the KV cache. It has not if replies are generated during updates.
func (c *Config) FreesKV() bool {
	return c.Rollout.FreeCache && c.Trainer.AsyncSteps == 0 && c.Serve.Listen == ""
}

// Algo sets the advantage estimator and the filtering of groups.
type Algo struct {
	Name          string  `toml:"name"`
	AdvEstimator  string  `toml:"adv_estimator"`
	FilterMetric  string  `toml:"filter_metric"`
	UseKLInReward bool    `toml:"use_kl_in_reward"`
	KLPenalty     string  `toml:"kl_penalty"`
	KLCtrl        string  `toml:"kl_ctrl"`
	KLCoef        float64 `toml:"kl_coef"`
	KLTarget      float64 `toml:"kl_target"`
	KLHorizon     float64 `toml:"kl_horizon"`
	FilterGroups  bool    `toml:"filter_groups"`
	MaxGenBatches int     `toml:"max_gen_batches"`
	PFPPO         string  `toml:"pf_ppo"`
	// Params has the parameters of all estimators and of all weightings of
	// PF-PPO. The configured estimator and weighting read only their own parameters.
	Params            registry.Values   `toml:"-"`
	AgentEvol         AgentEvol         `toml:"agentevol"`
	RolloutCorrection RolloutCorrection `toml:"rollout_correction"`
}

// AgentEvol sets the imitated episodes if Algo.Name is agentevol.
type AgentEvol struct {
	PerTask int `toml:"per_task"`
	Replay  int `toml:"replay"`
}

// RolloutCorrection sets the handling of differences between the log-probs of
// sampling and of training.
type RolloutCorrection struct {
	IS               string   `toml:"rollout_is"`
	ISThreshold      float64  `toml:"rollout_is_threshold"`
	ISThresholdLower float64  `toml:"rollout_is_threshold_lower"`
	ISBatchNormalize bool     `toml:"rollout_is_batch_normalize"`
	RS               []string `toml:"rollout_rs"`
	RSThreshold      []string `toml:"rollout_rs_threshold"`
	BypassMode       bool     `toml:"bypass_mode"`
	LossType         string   `toml:"loss_type"`
}

// Actor sets the policy update.
type Actor struct {
	MiniBatchSize          int     `toml:"mini_batch_size"`
	MicroBatchSize         int     `toml:"micro_batch_size"`
	DynamicBatch           bool    `toml:"dynamic_batch"`
	MaxTokensPerMicroBatch int     `toml:"max_tokens_per_micro_batch"`
	SharePrefix            bool    `toml:"share_prefix"`
	PPOEpochs              int     `toml:"ppo_epochs"`
	Shuffle                bool    `toml:"shuffle"`
	PolicyLoss             string  `toml:"policy_loss"`
	LossAgg                string  `toml:"loss_agg"`
	LossScaleFactor        float64 `toml:"loss_scale_factor"`
	EntropyCoef            float64 `toml:"entropy_coef"`
	CalculateEntropy       bool    `toml:"calculate_entropy"`
	UseKLLoss              bool    `toml:"use_kl_loss"`
	KLLossCoef             float64 `toml:"kl_loss_coef"`
	KLLossType             string  `toml:"kl_loss_type"`
	GradClip               float64 `toml:"grad_clip"`
	OffloadOptimizer       bool    `toml:"offload_optimizer"`
	Optim                  Optim   `toml:"optim"`

	// Params has the parameters of all policy losses; PolicyLoss uses only its declared ones.
	Params registry.Values `toml:"-"`
}

// Critic sets the value model of gae and its update.
type Critic struct {
	Path           string  `toml:"path"`
	Shared         bool    `toml:"shared"`
	VFCoef         float64 `toml:"vf_coef"`
	ClipRangeValue float64 `toml:"clip_range_value"`
	MiniBatchSize  int     `toml:"mini_batch_size"`
	MicroBatchSize int     `toml:"micro_batch_size"`
	Epochs         int     `toml:"epochs"`
	Shuffle        bool    `toml:"shuffle"`
	GradClip       float64 `toml:"grad_clip"`

	GradientCheckpointing bool `toml:"gradient_checkpointing"`
	OffloadOptimizer      bool `toml:"offload_optimizer"`

	Optim Optim `toml:"optim"`
}

// Optim sets AdamW and the learning-rate schedule.
type Optim struct {
	LR          float64    `toml:"lr"`
	Betas       [2]float64 `toml:"betas"`
	Eps         float64    `toml:"eps"`
	WeightDecay float64    `toml:"weight_decay"`
	Schedule    string     `toml:"schedule"`
	WarmupRatio float64    `toml:"warmup_ratio"`
	WarmupSteps int        `toml:"warmup_steps"`
	MinLRRatio  float64    `toml:"min_lr_ratio"`
}

// Ref sets the frozen reference policy, which is loaded only if the loss or the
// reward contains the KL to it.
type Ref struct {
	Path           string `toml:"path"`
	MicroBatchSize int    `toml:"micro_batch_size"`
	OffloadParams  bool   `toml:"offload_params"`
}
