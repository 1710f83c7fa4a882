package track

// Values of Definition.When.
const (
	whenUpdated    = "steps with an update"
	whenEntropy    = "with actor.entropy_coef above 0, or actor.calculate_entropy"
	whenKLLoss     = "with actor.use_kl_loss"
	whenGroups     = "steps with a group of at least two episodes"
	whenCritic     = "with algo.adv_estimator = \"gae\""
	whenKLReward   = "with algo.use_kl_in_reward"
	whenWeighs     = "with a weight in algo.rollout_correction.rollout_is"
	whenCorrects   = "with a weight, a rule or bypass_mode in algo.rollout_correction"
	whenFilters    = "with algo.filter_groups"
	whenEvolves    = "with algo.name = \"agentevol\""
	whenSampled    = "with curriculum.sampler or curriculum.failures"
	whenScored     = "runs with reward.score_fn or reward.components"
	whenNonZero    = "lines where it is not zero"
	whenMixture    = "runs of several environments"
	whenAsync      = "with trainer.async_steps above 0"
	whenSupervised = "supervised steps"
	whenReading    = "lines of a fresh model's reading"
	everyLine      = "every line except those of the phase read"
)

// Table defines every metric that a run writes (spec 2.7). docs/metrics.md is
// generated from it. Means over tokens use the loss mask, which is 1 exactly on
// sampled tokens, instead of OpenManus-RL's window over the row. Ratios are in
// [0, 1]. Metrics that do not apply to a step are omitted.
var Table = []Definition{
	// Metrics of the update of a step.
	{CriticScore + stats, "scores of the episodes before any KL penalty; with algo.filter_groups only episodes of the update", ""},
	{CriticRewards + stats, "sum of the token rewards of an episode", ""},
	{CriticAdvantages + stats, "advantages at sampled tokens", ""},
	{AdvantageHistogram + "/*", "share of sampled tokens whose advantage is in the bin: lt_-2 is below -2, -2_-1 from -2 to below -1, zero exactly 0, ge_2 at least 2", ""},
	{CriticReturns + stats, "returns at sampled tokens", ""},
	{ActorLoss, "aggregated policy loss, mean over the updates of the step", whenUpdated},
	{ActorClipFrac, "share of sampled tokens whose probability ratio was clipped", whenUpdated},
	{ActorClipFracLower, "share of sampled tokens cut by the dual clip; in geo_mean, clipped for negative advantages; in dppo_tv and dppo_kl, with a ratio above clip_ratio_c", whenUpdated},
	{ActorPPOKL, "mean of old log-prob minus log-prob over sampled tokens; in kl_cov the mean of the absolute difference", whenUpdated},
	{ActorEntropyLoss, "mean entropy of the distributions that the tokens were sampled from", whenEntropy},
	{TurnEntropy + "/turn_*", "mean entropy over the tokens of an episode's first reply, second reply, and so on; turn_10 covers the tenth and all later replies", whenEntropy},
	{ActorKLLoss, "KL loss to the reference", whenKLLoss},
	{ActorKLCoef, "coefficient of the KL loss", whenKLLoss},
	{ActorGradNorm, "gradient norm before clipping, mean over optimiser steps", whenUpdated},
	{ActorLR, "learning rate of the actor", ""},
	{ActorSkipped, "optimiser steps that were skipped because the loss or gradient was not finite", whenUpdated},
	{UpdatedRows, "episodes that entered the update", ""},
	{LogProbGap + "_{mean,max,k3}", "difference between the log-probs of sampling and of the training pass: absolute difference (mean, max) and k3 estimate of the KL", whenUpdated},
	{StateTokens, "sampled tokens of the step", ""},
	{StateCoverage, "share of sampled tokens among all tokens", ""},

	// Metrics of the episodes of a step or of a validation.
	{"episode/outcome/*", "share of episodes with the outcome", ""},
	{"episode/attempts/mean", "attempts per episode; an attempt that fails because of a server or the engine is repeated", ""},
	{EpisodeReward + stats, "reward of an episode as the environment reports it, before score functions", ""},
	{"episode/length" + stats, "tokens of an episode: prompts, observations and replies", ""},
	{SuccessRate, "share of episodes whose reward exceeds the environment's success threshold", ""},
	{ResponseLength + stats, "sampled tokens per episode", ""},
	{"response_length/clip_ratio", "share of replies that reached the limit on new tokens", ""},
	{"response/aborted_ratio", "share of episodes without any sampled token", ""},
	{"prompt_length" + stats, "tokens before an episode's first reply", ""},
	{"prompt_length/clip_ratio", "share of episodes whose first prompt was shortened, see data.truncation", ""},
	{NumberOfActions + stats, "turns per episode", ""},
	{"num_turns" + stats, "messages per episode: the prompt, the replies and the observations between them", ""},
	{"env/finish_ratio", "share of episodes that the environment ended", ""},
	{"env/number_of_valid_action", "mean number of turns per episode whose reply contains an action", ""},
	{"env/ratio_of_valid_action", "share of turns whose reply contains an action, of the turns that the environment answered", ""},
	{"env/ratio_of_truncated_observations", "share of observations that were shortened for the model", ""},
	{"env/step_ms/{mean,max,min,p50,p90,p99}", "time of the environment per turn, in milliseconds", ""},
	{"env/generate_ms" + stats, "time of the model per turn, in milliseconds, including the wait for a batch", ""},
	{"group/reward_std", "standard deviation of the rewards within a group, mean over groups", whenGroups},
	{ZeroSpread, "share of groups whose environment rewards are all equal", whenGroups},
	{MixedStarts, "groups that were played on one server because the servers had different tasks for the index", ""},
	{DifferentStarts, "groups whose episodes have different first observations: the environment's resets are random, or the dump contains such groups", whenGroups},
	{DroppedRows, "episodes excluded from the update because all rewards of their group are equal, or the group has one episode", ""},
	{SingleGroups, "groups with only one usable episode", ""},
	{"rollout/{retries,replays,dropped}", "attempts beyond the first; instances replaced within an attempt; episodes dropped after the last attempt", ""},
	{BadTasks, "tasks excluded because their reset failed in the same way on every server", ""},
	{OverlongTasks, "tasks excluded because their first prompt is too long; the next tasks replace them", "with data.filter_overlong"},
	{"rollout/{turns,tokens,sampled_tokens}", "total over all episodes of the step", ""},
	{Staleness + "_{mean,max}", "number of versions by which the weights that sampled a reply's first token are older than the weights that the update starts from; mean over sampled tokens", whenAsync},
	{PlaySeconds, "time from the start of the step's first episode to the last score, in seconds; it overlaps earlier updates, and timing_s/gen is only the time that the step waited for the episodes", whenAsync},
	{WithoutReply, "episodes without a reply because the first messages fill the context", ""},
	{EngineSteps, "batches computed by the engine", ""},
	{"engine/{prefill_tokens,decode_tokens}", "tokens computed in prefill and in decoding", ""},
	{EngineShared, "prompt tokens reused from the KV cache of a context with the same prefix (rollout.enable_prefix_caching)", ""},
	{EngineParked, "times the KV cache of a session was evicted to make room for others", ""},
	{EngineRows, "mean number of sequences per batch", ""},
	{Validation + "/*/{success_rate,mean_score,mean_turns}", "validation results by environment; `overall` covers all episodes", "validations"},
	{Validation + "/*/episodes", "episodes of a validation, without episodes lost to failures", "validations"},
	{Validation + "/*/outcome/*", "share of a validation's episodes with the outcome", "validations"},
	{"untrained/" + Validation + "/*/{success_rate,mean_score,mean_turns,episodes}", "results of the validation before the warm start", "step 0 of a run with a warm start"},
	{"untrained/" + Validation + "/*/outcome/*", "outcomes of the validation before the warm start", "step 0 of a run with a warm start"},
	{BestValue, "best value of trainer.best_metric in a validation so far", "validations"},
	{BestStep, "step of the best validation; its checkpoint is kept", "validations"},

	// Metrics of a critic, the KL in the reward, rollout correction, dynamic
	// sampling and greedy baselines.
	{CriticValues + stats, "the critic's values at sampled tokens", whenCritic},
	{CriticExplainedVar, "1 - Var(R - V) / (Var(R) + 1e-5) over sampled tokens, unbiased variances", whenCritic},
	{CriticLoss, "value loss, mean over the updates of the step", whenCritic},
	{CriticClipFrac, "share of tokens whose value loss was clipped", whenCritic},
	{CriticPredMean, "mean predicted value", whenCritic},
	{CriticSkipped, "optimiser steps of the critic that were skipped because the loss or gradient was not finite", whenCritic},
	{CriticGradNorm, "the critic's gradient norm before clipping, mean over optimiser steps", whenCritic},
	{CriticLR, "learning rate of the critic", whenCritic},
	{CriticKL, "KL to the reference, mean over episodes of the mean over tokens", whenKLReward},
	{CriticKLCoeff, "coefficient of the KL penalty in the reward", whenKLReward},
	{RolloutCorrection + "/{kl,k3_kl,chi2_token}", "distance between the trained policy and the sampling policy, mean over tokens (docs/algorithms.md)", whenCorrects},
	{RolloutCorrection + "/{chi2_seq,training_ppl,rollout_ppl,ppl_ratio,log_ppl_diff,log_ppl_abs_diff,log_ppl_diff_max,log_ppl_diff_min}", "perplexities of the two policies and their difference, mean over episodes; the largest and smallest difference", whenCorrects},
	{RolloutCorrection + "/rollout_is_{mean,std,max,min,eff_sample_size,ratio_fraction_high,ratio_fraction_low}", "distribution of the importance weights in the loss, their effective sample size, and the shares above the cap and below its inverse (formulas: algo/correction/weightmetrics.go)", whenWeighs},
	{RolloutCorrection + "/rollout_is_seq_{mean,std,max,min,max_deviation,fraction_high,fraction_low}", "distribution of the mean importance weight per episode", whenWeighs},
	{RolloutCorrection + "/rollout_is_batch_norm_factor", "divisor that normalises the importance weights of the batch", "with algo.rollout_correction.rollout_is_batch_normalize"},
	{RolloutCorrection + "/rollout_is_oob_ratio", "share of sampled tokens whose weight is set to 0 because it lies outside the two thresholds", "with algo.rollout_correction.rollout_is_threshold_lower"},
	{RolloutCorrection + "/rollout_rs_{masked_fraction,seq_masked_fraction}", "share of sampled tokens excluded from the loss by a rejection rule, and share of episodes with such tokens", "with a rule in algo.rollout_correction.rollout_rs"},
	{GenBatches, "batches of tasks played in the step", whenFilters},
	{FilteredGroups, "groups of the step's batches that were filtered because their episodes do not differ", whenFilters},
	{Evol + "*/kept", "episodes of the step kept for imitation, by environment; `overall` covers all", whenEvolves},
	{Evol + "*/kept_share", "share of the step's usable episodes that are kept", whenEvolves},
	{EvolStored, "episodes kept by all steps so far", whenEvolves},
	{EvolTrajectories, "trajectories in the step's update: new, recorded and from earlier steps", whenEvolves},
	{EvolLoss, "mean negative log-prob of the imitated tokens, mean over the passes of the step", whenEvolves},
	{WithoutBaseline, "episodes excluded because the greedy episode of their task failed", "with algo.adv_estimator = \"remax\""},

	// Metrics of a curriculum.
	{MaxTurns, "turn limit of the step's episodes", "with curriculum.max_turns"},
	{TasksSeen, "number of training tasks played so far", whenSampled},
	{TasksResting, "tasks excluded from this step because their episodes failed too often in a row", whenSampled},
	{DrawnSuccessRate, "estimated success rate of the drawn tasks, before the step; 0.5 for a task that was never played", whenSampled},

	// Metrics of score functions.
	{ValidActionRatio, "share of turns whose action was valid, of the turns that the environment answered; reward.invalid_action_penalty applies to the other turns", ""},
	{"reward/*/*", "mean score of a component (reward/NAME/mean) over all episodes of the step, and means of the extra values that its function returns", whenScored},
	{Validation + "/*/reward/mean", "mean total score of a validation's episodes", whenScored},
	{Validation + "/*/reward/*/*", "mean score and extra values of a component in a validation", whenScored},
	{"untrained/" + Validation + "/*/reward/mean", "mean total score of the episodes of the validation before the warm start", whenScored},
	{"untrained/" + Validation + "/*/reward/*/*", "mean score and extra values of a component in the validation before the warm start", whenScored},

	// Faults of the environments' servers as clients see them (env.Error.Seen),
	// counted since the previous line.
	{ServerFaults, "failed or disturbed requests to environment servers since the previous line", everyLine},
	{ServerFaults + "/http_*", "faults: replies with this HTTP status", whenNonZero},
	{ServerFaults + "/timeout", "faults: no complete reply within the time limit of the call", whenNonZero},
	{ServerFaults + "/truncated", "faults: connections that ended after the status line", whenNonZero},
	{ServerFaults + "/reset", "faults: connections that ended before any reply", whenNonZero},
	{ServerFaults + "/refused", "faults: refused connections", whenNonZero},
	{ServerFaults + "/restarted", "faults: requests not sent, or replies ignored, because the server had been restarted", whenNonZero},
	{ServerFaults + "/{malformed,oversize,environment_error}", "faults: replies that are malformed, too large, or report an error", whenNonZero},
	{ServerFaults + "/{slow,duplicate}", "faults: valid replies that an injected fault delayed or duplicated (env proxy)", whenNonZero},
	{Servers + "{requests,instances_created,quarantines}", "requests, created instances and quarantined servers since the previous line", whenNonZero},
	{Servers + "*/{requests,instances_created,quarantines}", "requests, created instances and quarantined servers of one environment since the previous line", whenMixture},
	{Servers + "*/faults/*", "faults of one environment's servers by kind; the kinds are those of servers/faults", whenMixture},
	{Env + "*/{episodes,success_rate,mean_score,mean_turns,dropped}", "results of one environment's training episodes", whenMixture},

	// Metrics of the run: time, memory, and supervised training.
	{GlobalStep, "number of the training step", ""},
	{Epoch, "completed passes over the tasks", ""},
	{TimingSeconds + "/{gen,gen_max,reward,values,old_log_prob,ref,adv,update_critic,update_actor,testing,save_checkpoint,step,sft,read}", "wall time of a phase in seconds; step is the sum, save_checkpoint is the save before this line", "every line except lines with only a validation"},
	{TimingPerTokenMS + "/gen", "time of the rollout phase per sampled token, in milliseconds", ""},
	{TimingPerTokenMS + "/{ref,values,adv,update_critic,update_actor}", "time of the phase per token of the episodes, in milliseconds", "steps with this phase"},
	{SampledThroughput, "tokens sampled per second of the rollout phase", ""},
	{TurnThroughput, "turns per second of the rollout phase", ""},
	{"perf/{old_log_prob,ref,update}_tokens_per_s", "tokens processed per second of the phase, all passes counted; rows excluded from the update are not counted, but agentevol counts all training rows", "steps with this phase"},
	{TotalTokens, "tokens of all episodes of the step", ""},
	{TimePerStep, "time of the step in seconds", ""},
	{Throughput, "tokens of all episodes per second of the step", ""},
	{Utilization + "/{actor,critic,rollout}", "model FLOPs utilisation of the actor update, the critic update and the rollout: floating-point operations per second as a share of perf.peak_tflops (formula: algo/learner/flops.go)", "steps with this phase, with perf.peak_tflops"},
	{ProcessBytes, "resident memory of the process", everyLine},
	{TensorBytes, "bytes held by live tensors", everyLine},
	{DeviceBytes, "bytes of the GPU's memory that tensors hold", "every line, on a GPU"},
	{DevicePeakBytes, "the largest perf/gpu_bytes since the line before", "every line, on a GPU"},
	{DeviceTime, "seconds that the GPU took for the jobs of this process since the line before, each from its first operation to its last, by events", "every line, on a GPU"},
	{MemoryBytes + "/{weights,optimizer}", "tensor bytes of the weights (float32 and, if computation uses another dtype, the copy in it) and of the optimiser's moments", everyLine},
	{MemoryBytes + "/{critic,critic_optimizer}", "tensor bytes of the critic's weights (only its head with critic.shared) and of its optimiser's moments", whenCritic},
	{MemoryBytes + "/{reference,reward_model,kv_cache}", "tensor bytes of the reference's and the reward model's weights and of the KV cache", whenNonZero},
	{"sft/{step,epoch}", "number of the supervised step; completed passes over the trajectories", whenSupervised},
	{SFTLoss, "mean negative log-prob of the tokens in the loss, before the step", whenSupervised},
	{SFTSkipped, "1 if the step was skipped because its loss or gradient was not finite", whenSupervised},
	{"train/{grad_norm,lr,tokens}", "gradient norm before clipping, learning rate, and number of tokens in the loss of a supervised step", whenSupervised},
	{ValidationLoss, "mean negative log-prob of the tokens in the loss over the trajectories of sft.val_files", "validations of openmanus sft"},
	{ValidationTokens, "number of tokens in val/loss", "validations of openmanus sft"},
	{ReadThroughput, "tokens of the walks per second", whenReading},
	{SFTThroughput, "tokens of the trajectories per second", whenSupervised},
	{"read/{step,epoch,lr}", "step, completed passes over the walks, and learning rate at this line; a fresh model reads random walks before any other training", whenReading},
	{"read/{loss,grad_norm}", "loss (mean over tokens) and gradient norm (mean over steps) since the previous line", whenReading},
	{"read/{tokens,skipped_steps}", "tokens in the loss and skipped steps since the previous line", whenReading},
}
