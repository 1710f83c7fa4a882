package configs

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// Config is the configuration of a run. The tags are the keys of the TOML file;
// docs/configuration.md describes them.
type Config struct {
	Model      Model      `toml:"model"`
	Env        []Env      `toml:"env"`
	Data       Data       `toml:"data"`
	Agent      Agent      `toml:"agent"`
	Rollout    Rollout    `toml:"rollout"`
	Serve      Serve      `toml:"serve"`
	Reward     Reward     `toml:"reward"`
	Algo       Algo       `toml:"algo"`
	Curriculum Curriculum `toml:"curriculum"`
	Actor      Actor      `toml:"actor"`
	Critic     Critic     `toml:"critic"`
	Ref        Ref        `toml:"ref"`
	SFT        SFT        `toml:"sft"`
	Trainer    Trainer    `toml:"trainer"`
	Dist       Dist       `toml:"dist"`
	Perf       Perf       `toml:"perf"`
	Log        Log        `toml:"log"`

	// Derived lists the defaults that Load replaced.
	Derived []Derived `toml:"-"`

	// Schema is the schema that loaded the configuration.
	Schema *Schema `toml:"-" json:"-"`
}

// Model selects the weights and their dtype.
type Model struct {
	Path          string `toml:"path"`
	TokenizerPath string `toml:"tokenizer_path"`
	ChatTemplate  string `toml:"chat_template"`

	ChatTemplateKwargs map[string]string `toml:"chat_template_kwargs"`

	Device       string `toml:"device"`
	MasterDtype  string `toml:"master_dtype"`
	ComputeDtype string `toml:"compute_dtype"`
	// Keys of activation checkpointing and of adapters.
	GradientCheckpointing bool     `toml:"gradient_checkpointing"`
	LoRARank              int      `toml:"lora_rank"`
	LoRAAlpha             float64  `toml:"lora_alpha"`
	LoRADropout           float64  `toml:"lora_dropout"`
	TargetModules         []string `toml:"target_modules"`
	Fresh                 Fresh    `toml:"fresh"`
}

// Fresh describes a new model with random weights, as in the quickstart. Layers
// is 0 if an existing model is used.
type Fresh struct {
	Layers           int    `toml:"layers"`
	HiddenSize       int    `toml:"hidden_size"`
	IntermediateSize int    `toml:"intermediate_size"`
	Heads            int    `toml:"heads"`
	KVHeads          int    `toml:"kv_heads"`
	Vocabulary       string `toml:"vocabulary"`
	VocabSize        int    `toml:"vocab_size"`
	// Keys of the pretraining on random walks.
	Walks         int     `toml:"walks"`
	WalkTurns     int     `toml:"walk_turns"`
	WalkBatchSize int     `toml:"walk_batch_size"`
	WalkLR        float64 `toml:"walk_lr"`
}

// Env is one environment of the mixture.
type Env struct {
	Name            string   `toml:"name"`
	Kind            string   `toml:"kind"`
	Label           string   `toml:"label"`
	Servers         []string `toml:"servers"`
	Tasks           []string `toml:"tasks"`
	ValTasks        []string `toml:"val_tasks"`
	SkipTasks       []string `toml:"skip_tasks"`
	ExpertTasks     []string `toml:"expert_tasks"`
	Weight          float64  `toml:"weight"`
	MaxTurns        int      `toml:"max_turns"`
	Format          string   `toml:"format"`
	Parser          string   `toml:"parser"`
	ActionFormat    string   `toml:"action_format"`
	HistoryLength   int      `toml:"history_length"`
	UseSummary      bool     `toml:"use_summary"`
	MemoryFile      string   `toml:"memory_file"`
	FinalEnds       bool     `toml:"final_ends"`
	TimeoutS        float64  `toml:"timeout_s"`
	CreateTimeoutS  float64  `toml:"create_timeout_s"`
	ResetTimeoutS   float64  `toml:"reset_timeout_s"`
	StepTimeoutS    float64  `toml:"step_timeout_s"`
	ObserveTimeoutS float64  `toml:"observe_timeout_s"`
	CloseTimeoutS   float64  `toml:"close_timeout_s"`
	Retries         int      `toml:"retries"`
	MaxInstances    int      `toml:"max_instances"`
	MaxRequests     int      `toml:"max_requests"`
	QuarantineAfter int      `toml:"quarantine_after"`
	WaitHealthyS    float64  `toml:"wait_healthy_s"`
	Instruction     string   `toml:"instruction"`
	InstructionFile string   `toml:"instruction_file"`
	Recipes         string   `toml:"recipes"`
	Vocabulary      string   `toml:"vocabulary"`
	// Keys of the environments of a user's own.
	SuccessReward float64 `toml:"success_reward"`
	Deterministic bool    `toml:"deterministic"`
	Cumulative    bool    `toml:"cumulative"`
	// Keys of prompt tasks.
	ScoreFn     string            `toml:"score_fn"`
	ScoreParams map[string]string `toml:"score_params"`
	PromptKey   string            `toml:"prompt_key"`
	AnswerKey   string            `toml:"answer_key"`
	SourceKey   string            `toml:"source_key"`
	// Keys of the servers that the program starts if Launch is set.
	Launch        bool              `toml:"launch"`
	NumServers    int               `toml:"num_servers"`
	BasePort      int               `toml:"base_port"`
	Checkout      string            `toml:"checkout"`
	Command       []string          `toml:"command"`
	Workdir       string            `toml:"workdir"`
	Environment   map[string]string `toml:"environment"`
	Python        string            `toml:"python"`
	Venv          string            `toml:"venv"`
	StartTimeoutS float64           `toml:"start_timeout_s"`
	HangTimeoutS  float64           `toml:"hang_timeout_s"`
}

// Called returns the name of the table in metrics and messages: its label, or the
// environment's name.
func (e Env) Called() string { return cmp.Or(e.Label, e.Name) }

// Data sets how tasks are drawn for steps.
type Data struct {
	TrainLimit      int    `toml:"train_limit"`
	ValLimit        int    `toml:"val_limit"`
	MaxPromptTokens int    `toml:"max_prompt_tokens"`
	Truncation      string `toml:"truncation"`
	FilterOverlong  bool   `toml:"filter_overlong"`
	TrainBatchSize  int    `toml:"train_batch_size"`
	Shuffle         bool   `toml:"shuffle"`
	Seed            uint64 `toml:"seed"`
	// Keys of training from a dump, which needs no server.
	FromDump  string `toml:"from_dump"`
	OffPolicy bool   `toml:"off_policy"`
}

// Agent bounds the episode loop. Format, MaxTurns, HistoryLength and MemoryFile
// are the defaults of [[env]] tables.
type Agent struct {
	Format           string  `toml:"format"`
	MaxTurns         int     `toml:"max_turns"`
	MaxObsTokens     int     `toml:"max_obs_tokens"`
	MaxParseFailures int     `toml:"max_parse_failures"`
	MaxWorkers       int     `toml:"max_workers"`
	EpisodeRetries   int     `toml:"episode_retries"`
	EpisodeReplays   int     `toml:"episode_replays"`
	HistoryLength    int     `toml:"history_length"`
	MemoryFile       string  `toml:"memory_file"`
	Summary          Summary `toml:"summary"`
}

// Summary sets the model that writes the summaries in prompts of the format "history".
type Summary struct {
	BaseURL     string  `toml:"base_url"`
	Model       string  `toml:"model"`
	KeyEnv      string  `toml:"key_env"`
	Concurrency int     `toml:"concurrency"`
	TimeoutS    float64 `toml:"timeout_s"`
	MaxTokens   int     `toml:"max_tokens"`
	Temperature float64 `toml:"temperature"`
}

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

// Curriculum sets the turn limit and the tasks of a step.
type Curriculum struct {
	MaxTurns  []string `toml:"max_turns"`
	Sampler   string   `toml:"sampler"`
	Failures  int      `toml:"failures"`
	RestSteps int      `toml:"rest_steps"`
}

// Actor sets the policy update.
type Actor struct {
	MiniBatchSize          int     `toml:"mini_batch_size"`
	MicroBatchSize         int     `toml:"micro_batch_size"`
	DynamicBatch           bool    `toml:"dynamic_batch"`
	MaxTokensPerMicroBatch int     `toml:"max_tokens_per_micro_batch"`
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

// SFT configures supervised training on recorded trajectories: `openmanus sft`,
// and the warm start of `openmanus train` if Epochs is not 0.
type SFT struct {
	Epochs         int      `toml:"epochs"`
	TotalSteps     int      `toml:"total_steps"`
	Files          []string `toml:"files"`
	ValFiles       []string `toml:"val_files"`
	PromptKey      string   `toml:"prompt_key"`
	ResponseKey    string   `toml:"response_key"`
	TrainBatchSize int      `toml:"train_batch_size"`
	MicroBatchSize int      `toml:"micro_batch_size"`
	DynamicBatch   bool     `toml:"dynamic_batch"`
	MaxTokens      int      `toml:"max_tokens_per_micro_batch"`
	MaxLength      int      `toml:"max_length"`
	Truncation     string   `toml:"truncation"`
	SkipIdle       bool     `toml:"skip_idle"`
	GradClip       float64  `toml:"grad_clip"`
	DumpSuccess    bool     `toml:"dump_success"`
	DumpMinReward  float64  `toml:"dump_min_reward"`
	Optim          Optim    `toml:"optim"`
}

// Trainer sets the length of the run and its output.
type Trainer struct {
	Project          string `toml:"project"`
	Experiment       string `toml:"experiment"`
	ExperimentSuffix string `toml:"experiment_suffix"`
	Epochs           int    `toml:"epochs"`
	TotalSteps       int    `toml:"total_steps"`
	SaveEvery        int    `toml:"save_every"`
	TestEvery        int    `toml:"test_every"`
	CriticWarmup     int    `toml:"critic_warmup"`
	AsyncSteps       int    `toml:"async_steps"`
	ValBeforeTrain   bool   `toml:"val_before_train"`
	KeepCheckpoints  int    `toml:"keep_checkpoints"`
	KeepRollouts     int    `toml:"keep_rollouts"`
	CompressRollouts bool   `toml:"compress_rollouts"`
	BestMetric       string `toml:"best_metric"`
	Resume           string `toml:"resume"`
	OutputDir        string `toml:"output_dir"`
	Seed             uint64 `toml:"seed"`
}

// Dist configures a run of several processes.
type Dist struct {
	TimeoutS         float64 `toml:"timeout_s"`
	Shard            string  `toml:"shard"`
	RolloutProcesses int     `toml:"rollout_processes"`
}

// Perf has the properties of the machine for utilization metrics.
type Perf struct {
	PeakTFLOPS float64 `toml:"peak_tflops"`
}

// Serve configures training on the episodes of agents in other programs.
type Serve struct {
	Listen           string   `toml:"listen"`
	ModelNames       []string `toml:"model_names"`
	OverrideSampling bool     `toml:"override_sampling"`
	EpisodeTimeoutS  float64  `toml:"episode_timeout_s"`
	RequestTimeoutS  float64  `toml:"request_timeout_s"`
	MaxWaiting       int      `toml:"max_waiting"`
	NoAPIKey         bool     `toml:"no_api_key"`
}

// Log sets the sinks of metrics.
type Log struct {
	Backends []string `toml:"backends"`
	Level    string   `toml:"level"`
}

// Clone returns a deep copy of c.
func (c Config) Clone() Config {
	c.Env, c.Derived = slices.Clone(c.Env), slices.Clone(c.Derived)
	c.Reward.Components = slices.Clone(c.Reward.Components)
	for i, p := range c.Reward.Components {
		c.Reward.Components[i].Params = maps.Clone(p.Params)
	}
	c.Algo.Params, c.Actor.Params = maps.Clone(c.Algo.Params), maps.Clone(c.Actor.Params)
	for _, e := range c.Schema.table {
		_, list := e.def.([]string)
		_, table := e.def.(map[string]string)
		if e.param || !list && !table {
			continue
		}
		for _, path := range c.paths(e.name) {
			f := c.field(path)
			if list {
				f.Set(reflect.ValueOf(slices.Clone(f.Interface().([]string))))
			} else {
				f.Set(reflect.ValueOf(maps.Clone(f.Interface().(map[string]string))))
			}
		}
	}
	return c
}

// UsesReference reports whether a step measures the KL to a frozen policy.
func (c *Config) UsesReference() bool { return c.Actor.UseKLLoss || c.Algo.UseKLInReward }

// Evolves reports whether the run uses AgentEvol.
func (c *Config) Evolves() bool { return c.Algo.Name == "agentevol" }

// UsesCritic reports whether advantages are estimated with a critic's values.
func (c *Config) UsesCritic() bool { return c.estimator().Critic }

// updatesCritic reports whether the critic is updated separately from the policy.
func (c *Config) updatesCritic() bool {
	return c.UsesCritic() && !c.Evolves() && (!c.Critic.Shared || c.Trainer.CriticWarmup > 0)
}

// estimator returns the properties of the configured advantage estimator.
func (c *Config) estimator() registry.Estimator {
	e, _ := registry.Find(c.Schema.words.Estimators, c.Algo.AdvEstimator)
	return e
}

// environmentsThat lists the environments with a property.
func (c *Config) environmentsThat(have func(registry.Environment) bool) string {
	return strings.Join(registry.NamesOf(c.Schema.words.Environments, have), ", ")
}

// environment returns the properties of an environment by its name.
func (c *Config) environment(name string) registry.Environment {
	e, _ := registry.Find(c.Schema.words.Environments, name)
	return e
}

// environmentOf returns the properties of the environment of an [[env]] table. The
// result has no name if the environment is not known.
func (c *Config) environmentOf(e Env) registry.Environment {
	own := registry.Environment{Entry: registry.Entry{Name: e.Name}, Cumulative: e.Cumulative}
	switch e.Kind {
	case KindAgentGym:
		own.Tools = true
		return own
	case KindPrompt:
		return own
	}
	return c.environment(e.Name)
}
