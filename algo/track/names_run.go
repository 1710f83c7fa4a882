package track

// Metrics of the run: time, memory, and supervised training.

const (
	whenSupervised = "supervised steps"
	whenReading    = "lines of a fresh model's reading"
	whenThere      = "lines where it is not zero"
	everyLine      = "every line except those of reading"
)

var _ = SeenBy("cli.TestTrainWithRewardModel", MemoryBytes+"/reward_model")

var _ = Define(
	Definition{"training/global_step", "the step", ""},
	Definition{"training/epoch", "completed passes over the tasks", ""},
	Definition{TimingSeconds + "/{gen,gen_max,reward,values,old_log_prob,ref,adv,update_critic,update_actor,testing,save_checkpoint,step,sft,read}", "wall time of a phase in seconds; step is the sum, save_checkpoint is the save before this line", "every line except those of a validation alone"},
	Definition{TimingPerTokenMS + "/gen", "time of the rollout phase per sampled token, in milliseconds", ""},
	Definition{TimingPerTokenMS + "/{ref,values,adv,update_critic,update_actor}", "time of the phase per token of the episodes, in milliseconds", "steps with this phase"},
	Definition{"perf/sampled_tokens_per_s", "tokens sampled per second of the rollout phase", ""},
	Definition{"perf/turns_per_s", "turns per second of the rollout phase", ""},
	Definition{"perf/{old_log_prob,ref,update}_tokens_per_s", "tokens processed per second of the phase, all passes counted; rows excluded from the update are not counted, and for agentevol all training rows are", "steps with this phase"},
	Definition{"perf/total_num_tokens", "tokens of all episodes of the step", ""},
	Definition{"perf/time_per_step", "time of the step in seconds", ""},
	Definition{"perf/throughput", "tokens of all episodes per second of the step", ""},
	Definition{Utilization + "/{actor,critic,rollout}", "model FLOPs utilisation of the actor update, the critic update and the rollout: floating-point operations per second as a share of perf.peak_tflops (formula: algo/learner/flops.go)", "steps with this phase, with perf.peak_tflops"},
	Definition{ProcessBytes, "resident memory of the process", everyLine},
	Definition{TensorBytes, "bytes held by live tensors", everyLine},
	Definition{MemoryBytes + "/{weights,optimizer}", "tensor bytes of the weights (float32 and, if computation uses another dtype, the copy in it) and of the optimiser's moments", everyLine},
	Definition{MemoryBytes + "/{critic,critic_optimizer}", "tensor bytes of the critic's weights (only its head with critic.shared) and of its optimiser's moments", whenCritic},
	Definition{MemoryBytes + "/{reference,reward_model,kv_cache}", "tensor bytes of the reference's and the reward model's weights and of the KV cache", whenThere},
	Definition{"sft/{step,epoch}", "number of the supervised step; completed passes over the trajectories", whenSupervised},
	Definition{"train/loss", "mean negative log-prob of the tokens in the loss, before the step", whenSupervised},
	Definition{SFTSkipped, "1 if the step was skipped because its loss or gradient was not finite", whenSupervised},
	Definition{"train/{grad_norm,lr,tokens}", "gradient norm before clipping, learning rate, and number of tokens in the loss of a supervised step", whenSupervised},
	Definition{ValidationLoss, "mean negative log-prob of the tokens in the loss over the trajectories of sft.val_files", "validations of openmanus sft"},
	Definition{ValidationTokens, "number of tokens in val/loss", "validations of openmanus sft"},
	Definition{"perf/read_tokens_per_s", "tokens of the walks per second", whenReading},
	Definition{"perf/sft_tokens_per_s", "tokens of the trajectories per second", whenSupervised},
	Definition{"read/{step,epoch,lr}", "step, completed passes over the walks, and learning rate at this line; a fresh model reads random walks before any other training", whenReading},
	Definition{"read/{loss,grad_norm}", "loss (mean over tokens) and gradient norm (mean over steps) since the previous line", whenReading},
	Definition{"read/{tokens,skipped_steps}", "tokens in the loss and skipped steps since the previous line", whenReading},
)
