package configs

import (
	"cmp"
)

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

// Curriculum sets the turn limit and the tasks of a step.
type Curriculum struct {
	MaxTurns  []string `toml:"max_turns"`
	Sampler   string   `toml:"sampler"`
	Failures  int      `toml:"failures"`
	RestSteps int      `toml:"rest_steps"`
}
