package configs

import (
	"slices"

	"github.com/openmanus/openmanus/data/registry"
)

// The keys of a training step: sampling, algorithm, updates.

var rolloutKeys = slices.Concat([]entry{
	ready("rollout.engine", "local", "source of the replies: local generates in this process with the trained weights; openai gets them from the endpoint of [rollout.api], for eval and rollout only, since an endpoint's weights cannot be trained", oneOf([]string{"local", "openai"})),
	ready("rollout.group_size", 8, "episodes per task in a step", between(1, 4096)),
	ready("rollout.temperature", 1, "divisor of the logits, in sampling and in every log-prob", aboveTo(0, 100)),
	ready("rollout.top_p", 1, "nucleus sampling: probability mass to keep; log-probs are normalised over the kept tokens, in the update too", aboveTo(0, 1)),
	ready("rollout.top_k", -1, "number of most likely tokens to keep in sampling; log-probs are normalised over the kept tokens, in the update too; -1 or 0: all", topK),
	ready("rollout.max_new_tokens", 512, "maximum tokens of a reply", atLeast(1)),
	ready("rollout.max_context_tokens", 8192, "maximum tokens of a context, prompt and replies together", atLeast(2)),
	ready("rollout.max_sequences", 64, "maximum sessions in one decoding batch", between(1, 65536)),
	ready("rollout.max_batch_tokens", 8192, "maximum prompt tokens in one prefill batch", atLeast(1)),
	ready("rollout.enable_prefix_caching", true, "compute common beginnings of contexts once, such as the prompt of a group's episodes", anything, off("rollout.deterministic")),
	ready("rollout.kv_cache_fraction", 0.5, "on a CPU: maximum share of the host's free memory for the KV cache", aboveTo(0, 0.95)),
	ready("rollout.gpu_memory_utilization", 0.5, "on a GPU: maximum share of its memory that is in use once the KV cache is made, weights and optimiser included; the rest is for the update, which also has the memory of the cache with free_cache_engine", aboveTo(0, 1)),
	ready("rollout.free_cache_engine", true, "on a GPU: free the KV cache while a step computes log-probs and updates weights, and reserve it again for the next episodes (docs/memory.md)", anything, zero("trainer.async_steps"), drawsTasks),
	ready("rollout.enforce_eager", false, "on a GPU: submit the operations of every decoding step one by one, without CUDA graphs (docs/architecture.md)", anything),
	ready("rollout.weight_dtype", "auto", "number format of the linear layers' weights in sampling: auto is that of training; int8 is a copy with one scale per output, renewed after every update: on a CPU faster with up to four sequences at a time and slower with more; its log-probs differ from those of training (docs/memory.md#sampling-with-int8-weights)", oneOf([]string{"auto", Int8}), among("rollout.engine", "local")),
	ready("rollout.tensor_parallel_size", 1, "in training with several processes: number of processes that hold the model together while episodes are played, each with its part of the heads, of the inner width and of the KV cache (docs/distributed.md); the number of processes is a multiple of it. In eval and rollout all processes hold the model together", between(1, 1024)),
	ready("rollout.ignore_eos", false, "ignore end tokens: a reply has max_new_tokens tokens unless the context or the format ends it first; for benchmarks, since a model trained this way does not learn to stop", anything),
	ready("rollout.deterministic", false, "form batches in a fixed order, so that equal seeds give equal runs on a CPU, at some cost in speed", anything),
	ready("rollout.max_logprob_gap", 0, "mean gap between sampled and recomputed log-probs above which a warning is logged; 0: 1e-3 in float32, 0.05 in bfloat16, 0.15 with weight_dtype = \"int8\"", atLeast(0), policyGradient),
	ready("rollout.fail_on_logprob_gap", false, "end the run if the gap exceeds max_logprob_gap, instead of logging a warning", anything, policyGradient),
	fixed("rollout.record_log_probs", true, "keep the log-prob of every sampled token"),
	fixed("rollout.do_sample", true, "sample rather than take the likeliest token"),
	moved("rollout.dtype", "write model.compute_dtype: sampling and training share the weights"),
	moved("rollout.log_prob_micro_batch_size", "write actor.micro_batch_size"),
	moved("rollout.n", "write rollout.group_size"),
	moved("rollout.n_agent", "write rollout.group_size"),
	ready("rollout.val.temperature", 0.4, "temperature of validation; 0: greedy", between(0, 100), environments),
	ready("rollout.val.group_size", 1, "episodes per validation task", between(1, 4096), environments),
	later("rollout.val.top_p"),
	later("rollout.val.top_k"),
	later("rollout.val.do_sample"),
}, under(among("rollout.engine", openai),
	ready("rollout.api.base_url", "", "address of an OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1", anything),
	ready("rollout.api.model", "", "name of the model at the endpoint", anything),
	ready("rollout.api.key_env", "OPENAI_API_KEY", "environment variable with the endpoint's API key; without a value no key is sent", keyVariable),
	ready("rollout.api.concurrency", 0, "maximum concurrent requests to the endpoint; 0: one per episode", between(0, 65536)),
	ready("rollout.api.timeout_s", 120, "timeout of one request to the endpoint, in seconds", aboveTo(0, 86400)),
	ready("rollout.api.retries", 5, "retries of a request after status 429, 5xx or a broken reply", between(0, 100)),
))

func (s *Schema) algoKeys() []entry {
	adaptive := klInReward.and(among("algo.kl_ctrl", "adaptive"))
	// filter_metric is also read for estimators that compare episodes by score alone.
	byScore := registry.NamesOf(s.words.Estimators, func(e registry.Estimator) bool { return e.ByScore })
	filtered := either("algo.filter_groups = true, or algo.adv_estimator = "+alternatives(byScore), func(c *Config) bool {
		return c.Algo.FilterGroups || slices.Contains(byScore, c.Algo.AdvEstimator)
	})
	return slices.Concat([]entry{
		ready("algo.name", "policy_gradient", "learning method: policy_gradient uses advantages and a policy loss; agentevol is supervised training on the successful episodes and the recorded trajectories of [sft]", oneOf([]string{"policy_gradient", "agentevol"})),
		ready("algo.adv_estimator", "grpo", "advantage estimator (docs/algorithms.md)", oneOf(registry.NamesOf(s.words.Estimators, nil)), policyGradient),
	},
		choice{"algo.", registry.EntriesOf(s.words.Estimators)}.keys(selectedBy("algo.adv_estimator", policyGradient)),
		[]entry{
			ready("algo.filter_metric", "seq_final_reward", "number that must differ within a group for the group to be used: seq_final_reward is the episode's final reward, penalties included; score is the score before penalties; env_reward is the environment's reward, without score functions", oneOf([]string{"seq_final_reward", "score", "env_reward"}), policyGradient, filtered),
			ready("algo.use_kl_in_reward", false, "subtract the KL to a frozen reference, a second copy of the weights, from the reward", anything, policyGradient),
			ready("algo.kl_penalty", "k1", "KL estimator of the KL in the reward", oneOf(registry.NamesOf(s.words.KLEstimators, nil)), klInReward),
			ready("algo.kl_ctrl", "fixed", "controller of kl_coef: fixed keeps it, adaptive steers the KL towards kl_target", oneOf([]string{"fixed", "adaptive"}), klInReward),
			ready("algo.kl_coef", 0.001, "coefficient of the KL in the reward; with adaptive its initial value", atLeast(0), klInReward),
			ready("algo.kl_target", 0.1, "target KL of kl_ctrl = \"adaptive\"", above(0), adaptive),
			ready("algo.kl_horizon", 10000, "horizon of kl_ctrl = \"adaptive\", in episodes", above(0), adaptive),
			ready("algo.filter_groups", false, "dynamic sampling: draw more tasks until train_batch_size groups have different values of filter_metric; groups of equal values are always left out of the loss and counted", anything, policyGradient),
			ready("algo.max_gen_batches", 4, "maximum batches of tasks that filter_groups plays in a step; after that the step uses the groups it has, with a warning", atLeast(1), policyGradient, on("algo.filter_groups")),
			ready("algo.pf_ppo", "", "PF-PPO: resample a step's episodes with probabilities from their scores; empty: use each episode once", oneOf(append([]string{""}, registry.NamesOf(s.words.Reweightings, nil)...)), policyGradient),
		},
		choice{"algo.", s.words.Reweightings}.keys(selectedBy("algo.pf_ppo", policyGradient)),
		[]entry{
			ready("algo.agentevol.per_task", 1, "maximum successful episodes of a task that a step keeps; 0: all", atLeast(0), agentevol),
			ready("algo.agentevol.replay", -1, "trajectories that a step trains on in addition to its own episodes, drawn from the recorded trajectories and the episodes kept in earlier steps", orAll, agentevol),
			ready("algo.rollout_correction.rollout_is", "", "importance weights of the losses, which correct the difference between sampling and training log-probs; empty: none", oneOf([]string{"", "token", "sequence"}), policyGradient),
			ready("algo.rollout_correction.rollout_is_threshold", 2, "upper bound of a weight", above(0), importanceWeights),
			ready("algo.rollout_correction.rollout_is_threshold_lower", 0, "IcePop: weights below this and above rollout_is_threshold become 0; 0: weights above rollout_is_threshold are cut to it", atLeast(0), importanceWeights),
			ready("algo.rollout_correction.rollout_is_batch_normalize", false, "divide the weights by their mean", anything, importanceWeights),
			ready("algo.rollout_correction.rollout_rs", nil, "rejection rules that remove tokens or episodes from the loss", eachOf(s.words.Rejections), policyGradient),
			ready("algo.rollout_correction.rollout_rs_threshold", nil, "the threshold of each rule, as text: an upper bound, for k1 two ratios such as \"0.5_2\"", thresholds, policyGradient),
			ready("algo.rollout_correction.bypass_mode", false, "use the recorded log-probs as the old ones, without a pass that recomputes them", anything, policyGradient),
			ready("algo.rollout_correction.loss_type", "ppo_clip", "the loss of bypass_mode", oneOf([]string{"ppo_clip", "reinforce"}), policyGradient, on("algo.rollout_correction.bypass_mode")),
		})
}

func (s *Schema) actorKeys() []entry {
	var kls []string
	for _, name := range registry.NamesOf(s.words.KLEstimators, nil) {
		kls = append(kls, name, name+"+")
	}
	return slices.Concat([]entry{
		ready("actor.mini_batch_size", 32, "maximum episodes per optimiser step; if it does not divide a step's episodes, the mini-batches are made as equal as possible; 0: all episodes of the step in one update", atLeast(0)),
		ready("actor.micro_batch_size", 4, "maximum number of episodes per forward and backward pass; on a CPU a pass of rows without a common prefix has one row or at most 1024 tokens (docs/memory.md#passes-on-a-cpu); affects memory and speed, not the result", atLeast(1), off("actor.dynamic_batch")),
		ready("actor.dynamic_batch", false, "size passes by tokens instead of episodes", anything),
		ready("actor.max_tokens_per_micro_batch", 16384, "maximum tokens per pass with dynamic_batch", atLeast(1), on("actor.dynamic_batch")),
		ready("actor.share_prefix", true, "compute a common beginning of a pass's episodes once, such as the prompt of a group; affects memory and speed, not the result, and applies to the actor, the critic and the reference; the training of adapters with lora_dropout shares nothing", anything),
		ready("actor.ppo_epochs", 1, "passes over the step's episodes", between(1, 1000)),
		ready("actor.shuffle", false, "shuffle the episodes into new mini-batches in every pass; false: use the order in which they were played", anything, above0("actor.mini_batch_size")),
		ready("actor.policy_loss", "vanilla", "policy loss (docs/algorithms.md)", oneOf(registry.NamesOf(s.words.Losses, nil)), policyGradient),
		ready("actor.loss_agg", "token-mean", "aggregation of the token losses to one number (docs/algorithms.md)", oneOf(registry.NamesOf(s.words.Aggregations, nil)), policyGradient),
		ready("actor.loss_scale_factor", 0, "divisor of seq-mean-token-sum-norm; 0: rollout.max_context_tokens", atLeast(0), policyGradient, among("actor.loss_agg", "seq-mean-token-sum-norm")),
	},
		choice{"actor.", registry.EntriesOf(s.words.Losses)}.keys(selectedBy("actor.policy_loss", ratioLoss)),
		[]entry{
			ready("actor.entropy_coef", 0, "weight of the entropy bonus", atLeast(0), policyGradient),
			ready("actor.calculate_entropy", false, "report the entropy, by turn, even if entropy_coef is 0", anything, policyGradient),
			ready("actor.use_kl_loss", false, "add the KL to a frozen reference to the loss; the reference is a second copy of the weights, unless lora_rank freezes these", anything, policyGradient),
			ready("actor.kl_loss_coef", 0.001, "weight of the KL loss", atLeast(0), klLoss),
			ready("actor.kl_loss_type", "k3", "KL estimator; a trailing + selects the gradient of k2; full sums over the whole vocabulary", oneOf(append(kls, "full")), klLoss),
			ready("actor.grad_clip", 1, "maximum global L2 norm of the gradient", above(0)),
			fixed("actor.mask_observations", true, "the loss covers sampled tokens only"),
			fixed("actor.offload_params", false, "keep weights in host memory between phases; sampling and training share them, so every phase needs them"),
			ready("actor.offload_optimizer", false, "on a GPU: keep the optimiser's moments in host memory while episodes are played", anything),
			moved("actor.clip_ratio", "write actor.clip_ratio_low and actor.clip_ratio_high"),
			moved("actor.compute_dtype", "write model.compute_dtype"),
			moved("actor.reduce_dtype", "gradients are summed in float32; leave it out"),
			moved("actor.ppo_mini_batch_size", "write actor.mini_batch_size"),
			moved("actor.ppo_micro_batch_size", "write actor.micro_batch_size"),
		},
		optimKeys("actor.optim", Optim{LR: 1e-6, Betas: [2]float64{0.9, 0.999}, Schedule: "constant"}, nil, nil))
}

// optimKeys returns the keys of an [*.optim] section. The parameter def has the
// section's defaults, when has the condition of lr and the schedule, and adamw has
// the condition of betas, eps and weight_decay.
func optimKeys(in string, def Optim, when, adamw use) []entry {
	return []entry{
		ready(in+".lr", def.LR, "learning rate", aboveTo(0, 1), when),
		ready(in+".betas", def.Betas, "AdamW's decay rates of the two moments", betas, adamw),
		ready(in+".eps", 1e-8, "AdamW's epsilon", aboveTo(0, 1), adamw),
		ready(in+".weight_decay", 0.01, "decoupled weight decay", between(0, 1), adamw),
		ready(in+".schedule", def.Schedule, "shape of the learning rate after warm-up", oneOf([]string{"constant", "linear", "cosine"}), when),
		ready(in+".warmup_ratio", def.WarmupRatio, "warm-up as a share of all steps", between(0, 1), when),
		ready(in+".warmup_steps", -1, "warm-up steps; -1: computed from warmup_ratio", orOff, when),
		ready(in+".min_lr_ratio", 0, "final learning rate of linear and cosine, as a share of lr", between(0, 1), when, among(in+".schedule", "linear", "cosine")),
	}
}

// criticKeys have an effect if the estimator uses a critic.
func (s *Schema) criticKeys() []entry {
	// A shared critic has separate updates only during its warm-up.
	ownUpdates := either("critic.shared = false, or trainer.critic_warmup above 0", func(c *Config) bool {
		return !c.Critic.Shared || c.Trainer.CriticWarmup > 0
	})
	return under(s.critic(), slices.Concat([]entry{
		ready("critic.path", "", "initial weights of the critic; empty: the actor's before the first step", anything),
		ready("critic.shared", false, "put the critic's head on the actor's decoder: one forward pass for both and no second model; mini_batch_size, micro_batch_size, epochs and shuffle then apply to the critic's warm-up, grad_clip and optim to the head", anything),
		ready("critic.vf_coef", 0.1, "weight of a shared critic's value loss in the sum with the policy loss", above(0), on("critic.shared")), // the default is TRL's
		ready("critic.clip_range_value", 0.5, "maximum change of a value from its value before the update, in the clipped value loss", above(0)),
		ready("critic.mini_batch_size", 32, "maximum episodes per optimiser step of the critic; 0: all episodes of the step", atLeast(0), ownUpdates),
		ready("critic.micro_batch_size", 4, "maximum number of episodes per pass of the critic, as actor.micro_batch_size; affects memory and speed, not the result", atLeast(1), off("actor.dynamic_batch")),
		ready("critic.grad_clip", 1, "maximum global L2 norm of the critic's gradient", above(0)),
		ready("critic.epochs", 1, "passes of the critic over the step's episodes", between(1, 1000), ownUpdates),
		ready("critic.shuffle", false, "shuffle the episodes into new mini-batches of the critic in every pass", anything, ownUpdates, above0("critic.mini_batch_size")),
		ready("critic.gradient_checkpointing", false, "recompute the critic's activations in its backward pass instead of storing them: the same gradients with less memory, in about a third more time", anything),
		fixed("critic.offload_params", false, "keep the critic in host memory between phases"),
		ready("critic.offload_optimizer", false, "on a GPU: keep the moments of the critic's optimiser in host memory except during its update", anything),
		moved("critic.param_dtype", "the critic has model.master_dtype and computes in model.compute_dtype"),
		moved("critic.forward_micro_batch_size", "write critic.micro_batch_size"),
		moved("critic.dynamic_batch", "the critic follows actor.dynamic_batch"),
		moved("critic.max_tokens_per_micro_batch", "the critic follows actor.max_tokens_per_micro_batch"),
	}, optimKeys("critic.optim", Optim{LR: 1e-5, Betas: [2]float64{0.9, 0.999}, Schedule: "constant", WarmupRatio: 0.05}, nil, nil))...)
}

var refKeys = []entry{
	ready("ref.path", "", "weights of the reference; empty: the run's initial weights", anything, reference),
	ready("ref.micro_batch_size", 8, "maximum number of episodes per forward pass of the reference, as actor.micro_batch_size", atLeast(1), reference, off("actor.dynamic_batch")),
	ready("ref.offload_params", false, "on a GPU: keep the reference in host memory except while it scores", anything, reference),
	moved("ref.dynamic_batch", "the reference follows actor.dynamic_batch"),
	moved("ref.max_tokens_per_micro_batch", "the reference follows actor.max_tokens_per_micro_batch"),
}
