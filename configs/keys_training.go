package configs

// The keys of what happens in a step: sampling, rewards, the update.

var rolloutKeys = concat([]entry{
	ready("rollout.engine", "who generates: local is this process, with the weights that are trained; openai is the endpoint of [rollout.api], which eval and rollout play with and which cannot be trained", oneOf([]string{"local", "openai"})),
	ready("rollout.group_size", "episodes per task and step", between(1, 4096)),
	ready("rollout.temperature", "divides the logits, in sampling and in every log-prob", aboveTo(0, 100)),
	ready("rollout.top_p", "share of probability kept when sampling; below 1, log-probs no longer belong to what was sampled", aboveTo(0, 1)),
	ready("rollout.top_k", "tokens kept when sampling; -1 or 0: all", topK),
	ready("rollout.max_new_tokens", "tokens of one reply", atLeast(1)),
	ready("rollout.max_context_tokens", "tokens of a whole episode", atLeast(2)),
	ready("rollout.max_sequences", "sessions in one decoding batch", between(1, 65536)),
	ready("rollout.max_batch_tokens", "prompt tokens in one prefill batch", atLeast(1)),
	ready("rollout.kv_cache_fraction", "share of free memory the KV cache may take", aboveTo(0, 0.95)),
	ready("rollout.deterministic", "form batches in a fixed order: equal seeds give equal runs on a CPU, at some cost in speed", anything),
	ready("rollout.max_logprob_gap", "mean gap between sampled and recomputed log-probs that draws a warning; 0: the number format's own (1e-3 float32, 0.02 bfloat16)", atLeast(0)),
	ready("rollout.fail_on_logprob_gap", "end the run on such a gap", anything),
	fixed("rollout.record_log_probs", true, "keep the log-prob of every sampled token"),
	fixed("rollout.do_sample", true, "sample rather than take the likeliest token"),
	fixed("rollout.ignore_eos", false, "go on after the end token"),
	moved("rollout.dtype", "write model.compute_dtype: sampling and training share the weights"),
	moved("rollout.log_prob_micro_batch_size", "write actor.micro_batch_size"),
	moved("rollout.n", "write rollout.group_size"),
	moved("rollout.n_agent", "write rollout.group_size"),
},
	[]entry{
		ready("rollout.val.temperature", "temperature of validation; 0: greedy", between(0, 100)),
		ready("rollout.val.group_size", "episodes per validation task", between(1, 4096)),
	},
	later("rollout.val", "top_p top_k do_sample"),
	[]entry{
		ready("rollout.api.base_url", "address of an OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1", anything),
		ready("rollout.api.model", "the name by which the endpoint knows the model", anything),
		ready("rollout.api.key_env", "environment variable that holds the endpoint's key; none is sent if it is empty", notEmpty),
		ready("rollout.api.concurrency", "requests to the endpoint at once; 0: as many as episodes", between(0, 65536)),
		ready("rollout.api.timeout_s", "seconds one request to the endpoint may take", aboveTo(0, 86400)),
		ready("rollout.api.retries", "tries after the first, on 429, 5xx and broken replies", between(0, 100)),
	})

var algoKeys = concat([]entry{
	ready("algo.adv_estimator", "advantage estimator", oneOf([]string{"grpo"}, "gae", "grpo_passk", "rloo", "reinforce",
		"reinforce_plus_plus", "reinforce_plus_plus_baseline", "remax", "opo", "gpg", "gigpo")),
	ready("algo.norm_by_std", "divide a group's advantages by the spread of its rewards", anything),
	ready("algo.filter_metric", "whose spread decides whether a group is learned from: seq_final_reward is what the episodes are paid, penalties included; score what the environment or the score function gave", oneOf([]string{"seq_final_reward", "score"})),
	fixed("algo.gamma", 1.0, "discount"),
	fixed("algo.use_kl_in_reward", false, "take the KL to the reference off the reward"),
	fixed("algo.filter_groups", false, "sample again until every group has spread; groups without are always left out of the loss and counted"),
},
	later("algo", "lam kl_penalty kl_ctrl kl_coef kl_target kl_horizon max_gen_batches gigpo_step_weight gigpo_norm"))

var actorKeys = concat([]entry{
	ready("actor.mini_batch_size", "episodes per optimiser step; 0: all of the step's, one update", atLeast(0)),
	ready("actor.micro_batch_size", "episodes per forward and backward pass; changes memory and speed, not the result", atLeast(1)),
	ready("actor.dynamic_batch", "cut passes by tokens rather than episodes", anything),
	ready("actor.max_tokens_per_micro_batch", "tokens per pass where dynamic_batch is on", atLeast(1)),
	fixed("actor.ppo_epochs", 1, "passes over the step's episodes"),
	fixed("actor.shuffle", false, "shuffle episodes before mini-batches are cut"),
	ready("actor.policy_loss", "policy loss", oneOf([]string{"vanilla"}, "gspo", "cispo", "sapo", "gpg", "geo_mean", "clip_cov", "kl_cov")),
	ready("actor.loss_agg", "how token losses become one number", oneOf([]string{"token-mean"},
		"seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")),
	ready("actor.clip_ratio_low", "the ratio is clipped below 1 - this", aboveTo(0, 1)),
	ready("actor.clip_ratio_high", "the ratio is clipped above 1 + this", aboveTo(0, 100)),
	ready("actor.clip_ratio_c", "dual clip: bound of the loss for negative advantages", above(1)),
	ready("actor.entropy_coef", "weight of the entropy bonus", atLeast(0)),
	ready("actor.calculate_entropy", "report the entropy, by turn, also where entropy_coef is 0", anything),
	ready("actor.use_kl_loss", "add the KL to a frozen reference to the loss; it is a second copy of the weights, unless these are frozen themselves (lora_rank)", anything),
	ready("actor.kl_loss_coef", "weight of the KL loss", atLeast(0)),
	ready("actor.kl_loss_type", "KL estimator (k3 is also known as low_var_kl)", oneOf([]string{"k3"}, "low_var_kl", "k1", "kl", "k2", "mse", "abs", "full")),
	ready("actor.grad_clip", "global L2 norm of the gradient", above(0)),
	fixed("actor.mask_observations", true, "the loss covers sampled tokens only"),
	fixed("actor.offload_params", false, "keep weights in host memory between phases; sampling and training share them, so no phase is without"),
	ready("actor.offload_optimizer", "keep the optimiser's moments in host memory while episodes are played, on a GPU", anything),
	moved("actor.clip_ratio", "write actor.clip_ratio_low and actor.clip_ratio_high"),
	moved("actor.compute_dtype", "write model.compute_dtype"),
	moved("actor.reduce_dtype", "gradients are summed in float32; leave it out"),
	moved("actor.ppo_mini_batch_size", "write actor.mini_batch_size"),
	moved("actor.ppo_micro_batch_size", "write actor.micro_batch_size"),
},
	later("actor", "loss_scale_factor clip_cov_ratio clip_cov_lb clip_cov_ub kl_cov_ratio ppo_kl_coef tau_pos tau_neg"),
	optimKeys("actor.optim"))

// optimKeys are the keys of one [*.optim] section.
func optimKeys(in string) []entry {
	return []entry{
		ready(in+".lr", "learning rate", aboveTo(0, 1)),
		ready(in+".betas", "AdamW's decay rates of the two moments", betas),
		ready(in+".eps", "AdamW's epsilon", aboveTo(0, 1)),
		ready(in+".weight_decay", "decoupled weight decay", between(0, 1)),
		ready(in+".schedule", "shape of the learning rate after warm-up", oneOf([]string{"constant", "linear", "cosine"})),
		ready(in+".warmup_ratio", "share of all steps that warm up", between(0, 1)),
		ready(in+".warmup_steps", "steps that warm up; -1: by warmup_ratio", orOff),
		ready(in+".min_lr_ratio", "where linear and cosine end, as a share of lr", between(0, 1)),
	}
}

var criticKeys = concat(
	later("critic", `path param_dtype gradient_checkpointing clip_range_value mini_batch_size micro_batch_size forward_micro_batch_size
		dynamic_batch max_tokens_per_micro_batch epochs shuffle grad_clip offload_params offload_optimizer`),
	later("critic.optim", "lr betas eps weight_decay schedule warmup_ratio warmup_steps min_lr_ratio"))

var refKeys = []entry{
	ready("ref.path", "weights of the reference; empty: those the run starts from", anything),
	ready("ref.micro_batch_size", "episodes per forward pass of the reference", atLeast(1)),
	ready("ref.offload_params", "keep the reference in host memory but while it scores, on a GPU", anything),
	moved("ref.dynamic_batch", "the reference follows actor.dynamic_batch"),
	moved("ref.max_tokens_per_micro_batch", "the reference follows actor.max_tokens_per_micro_batch"),
}
