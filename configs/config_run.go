package configs

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
