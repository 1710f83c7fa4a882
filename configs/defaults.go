package configs

// Defaults returns the configuration of an empty file: the
// recommended values where experience has some (clip-higher, no entropy bonus,
// untruncated sampling), the original's elsewhere. It names no model and no
// environment, so it does not validate by itself.
func (s *Schema) Defaults() Config {
	return Config{
		Schema: s,
		Model: Model{
			Device:        "auto",
			MasterDtype:   "float32",
			ComputeDtype:  "auto",
			LoRAAlpha:     16,
			TargetModules: []string{allLinear},
			Fresh: Fresh{
				HiddenSize:       128,
				IntermediateSize: 384,
				Heads:            4,
				KVHeads:          2,
				Vocabulary:       "bytes",
				VocabSize:        512,
				WalkTurns:        12,
				WalkBatchSize:    4,
				WalkLR:           3e-3,
			},
		},
		Data: Data{
			MaxPromptTokens: 4096,
			Truncation:      "error",
			TrainBatchSize:  32,
			Shuffle:         true,
			Seed:            42,
		},
		Agent: Agent{
			Format:         "action_tags",
			MaxTurns:       10,
			MaxObsTokens:   1000,
			MaxWorkers:     64,
			EpisodeRetries: 2,
			EpisodeReplays: 10,
			HistoryLength:  2,
			Summary: Summary{
				Model: "gpt-4o", KeyEnv: "OPENAI_API_KEY", Concurrency: 8, TimeoutS: 30, MaxTokens: 300, Temperature: 0.1,
			},
		},
		Rollout: Rollout{
			Engine:           "local",
			GroupSize:        8,
			Temperature:      1,
			TopP:             1,
			TopK:             -1,
			MaxNewTokens:     512,
			MaxContextTokens: 8192,
			MaxSequences:     64,
			MaxBatchTokens:   8192,
			PrefixCaching:    true,
			KVCacheFraction:  0.5,
			Val:              RolloutVal{Temperature: 0.4, GroupSize: 1},
			API:              RolloutAPI{KeyEnv: "OPENAI_API_KEY", TimeoutS: 120, Retries: 5},
		},
		Reward: Reward{
			Signal: "last", Allocation: "last_token", Gamma: 1, MinAnswerTags: -1, ScoreTimeoutS: 60, ScoreBatchSize: 256, ModelMicroBatchSize: 8,
		},
		Algo: Algo{
			Name:          "policy_gradient",
			AdvEstimator:  "grpo",
			FilterMetric:  "seq_final_reward",
			KLPenalty:     "k1",
			KLCtrl:        "fixed",
			KLCoef:        0.001,
			KLTarget:      0.1,
			KLHorizon:     10000,
			MaxGenBatches: 4,
			Params:        defaultsOf(s.estimators, s.reweightings),
			AgentEvol:     AgentEvol{PerTask: 1, Replay: -1},
			RolloutCorrection: RolloutCorrection{
				ISThreshold: 2,
				LossType:    "ppo_clip",
			},
		},
		Actor: Actor{
			MiniBatchSize:          32,
			MicroBatchSize:         4,
			MaxTokensPerMicroBatch: 16384,
			PPOEpochs:              1,
			PolicyLoss:             "vanilla",
			LossAgg:                "token-mean",
			KLLossCoef:             0.001,
			KLLossType:             "k3",
			GradClip:               1,
			Optim:                  defaultOptim(),
			Params:                 defaultsOf(s.losses),
		},
		Curriculum: Curriculum{Sampler: "uniform", RestSteps: 20},
		Critic: Critic{
			VFCoef:         defaultVFCoef,
			ClipRangeValue: 0.5,
			MiniBatchSize:  32,
			MicroBatchSize: 4,
			Epochs:         1,
			GradClip:       1,
			Optim:          criticOptim(),
		},
		Ref: Ref{MicroBatchSize: 8},
		SFT: SFT{
			TrainBatchSize: 256,
			MicroBatchSize: 16,
			MaxTokens:      16384,
			MaxLength:      1024,
			Truncation:     "error",
			GradClip:       1,
			DumpSuccess:    true,
			Optim: Optim{
				LR:          1e-5,
				Betas:       [2]float64{0.9, 0.95},
				Eps:         1e-8,
				WeightDecay: 0.01,
				Schedule:    "cosine",
				WarmupRatio: 0.1,
				WarmupSteps: -1,
			},
		},
		Trainer: Trainer{
			Project:         "openmanus",
			Epochs:          15,
			TotalSteps:      305,
			SaveEvery:       100,
			TestEvery:       50,
			ValBeforeTrain:  true,
			KeepCheckpoints: 3,
			BestMetric:      "success_rate",
			Resume:          "auto",
			OutputDir:       "runs",
			Seed:            1,
		},
		Log: Log{Backends: []string{"console", "jsonl"}, Level: "info"},
	}
}

// DefaultEnv returns an [[env]] table with defaults for every key except its
// name. Format
// and MaxTurns are empty: ActionFormat and the [agent] section fill them.
func DefaultEnv(name string) Env {
	return Env{
		Name: name, Weight: 1, Parser: "g2", ActionFormat: react, HistoryLength: -1, TimeoutS: 300, CloseTimeoutS: 5, Retries: 5,
		QuarantineAfter: 10, WaitHealthyS: 120, NumServers: 1, BasePort: 36001, HangTimeoutS: 120,
	}
}

// DefaultComponent returns a [reward.components.NAME] table without keys. Fn is
// empty: resolving a configuration sets it to the name.
func (s *Schema) DefaultComponent(name string) Component {
	return Component{Name: name, Weight: 1, Params: defaultsOf(s.scores)}
}

// defaultVFCoef is TRL's.
const defaultVFCoef = 0.1

func defaultOptim() Optim {
	return Optim{
		LR:          1e-6,
		Betas:       [2]float64{0.9, 0.999},
		Eps:         1e-8,
		WeightDecay: 0.01,
		Schedule:    "constant",
		WarmupSteps: -1,
	}
}

func criticOptim() Optim {
	o := defaultOptim()
	o.LR, o.WarmupRatio = 1e-5, 0.05
	return o
}
