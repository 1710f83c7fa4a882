package track

// What the run itself writes: time, memory, and supervised training.

const (
	whenSupervised = "supervised steps"
	whenReading    = "lines of a fresh model's reading"
	whenThere      = "where there is some"
	everyLine      = "every line but those of reading"
)

var _ = SeenBy("cli.TestTrainWithRewardModel", MemoryBytes+"/reward_model")

var _ = Define(
	Definition{"training/global_step", "the step", ""},
	Definition{"training/epoch", "passes over the tasks that are done", ""},
	Definition{TimingSeconds + "/{gen,gen_max,reward,values,old_log_prob,ref,adv,update_critic,update_actor,testing,save_checkpoint,step,sft,read}", "wall seconds of a phase; step is all of them, save_checkpoint the save before the line", "every line but a validation's alone"},
	Definition{TimingPerTokenMS + "/gen", "milliseconds of playing for each sampled token", ""},
	Definition{TimingPerTokenMS + "/{ref,values,adv,update_critic,update_actor}", "milliseconds of the phase for each token of the episodes", "where there is the phase"},
	Definition{"perf/sampled_tokens_per_s", "tokens sampled in a second of playing", ""},
	Definition{"perf/turns_per_s", "turns played in a second", ""},
	Definition{"perf/{old_log_prob,ref,update}_tokens_per_s", "tokens of the rows that the phase was given (those left out of the update are not among them; in agentevol all that was learned from) in a second of it, all passes counted", "where there is the phase"},
	Definition{"perf/total_num_tokens", "tokens of all episodes of the step", ""},
	Definition{"perf/time_per_step", "seconds of the step", ""},
	Definition{"perf/throughput", "tokens of all episodes in a second of the step", ""},
	Definition{Utilization + "/{actor,critic,rollout}", "floating-point operations that the update of the actor, that of the critic, and playing had to do, in a second of the phase, as a share of perf.peak_tflops (the formula: algo/flops.go)", "where there is the phase, with perf.peak_tflops"},
	Definition{ProcessBytes, "memory of the process that is in RAM when the line is written", everyLine},
	Definition{TensorBytes, "bytes that live tensors hold", everyLine},
	Definition{MemoryBytes + "/{weights,optimizer}", "of these, the weights (float32 and, where the computation is in another type, their shadow) and the optimiser's moments", everyLine},
	Definition{MemoryBytes + "/{critic,critic_optimizer}", "of these, the critic's weights with their shadow and its head (the head alone with critic.shared), and its optimiser's moments", whenCritic},
	Definition{MemoryBytes + "/{reference,reward_model,kv_cache}", "of these, the weights of the reference and of the reward model, and the KV cache", whenThere},
	Definition{"sft/{step,epoch}", "the supervised step, and the passes over the trajectories that are done", whenSupervised},
	Definition{"train/loss", "negative log-prob of a token in the loss, mean over the batch, before the step", whenSupervised},
	Definition{SFTSkipped, "1 where the step was left out, since its loss or gradient was not finite", whenSupervised},
	Definition{"train/{grad_norm,lr,tokens}", "gradient norm before clipping, rate, and tokens in the loss of a supervised step", whenSupervised},
	Definition{ValidationLoss, "the same loss over the trajectories of sft.val_files", "validations of openmanus sft"},
	Definition{ValidationTokens, "tokens it is the mean of", "validations of openmanus sft"},
	Definition{"perf/read_tokens_per_s", "tokens of the walks in a second", whenReading},
	Definition{"perf/sft_tokens_per_s", "tokens of the trajectories in a second", whenSupervised},
	Definition{"read/{step,epoch,lr}", "step of reading, passes over the walks that a fresh model reads first, and the rate, where the line is written", whenReading},
	Definition{"read/{loss,grad_norm}", "the same as train/loss and train/grad_norm, mean over the steps since the line before: by token, and by step", whenReading},
	Definition{"read/{tokens,skipped_steps}", "tokens in the loss, and steps that were left out, since the line before", whenReading},
)
