package configs

import (
	"slices"

	"github.com/openmanus/openmanus/data/registry"
)

// The keys of what happens in a step: sampling, rewards, the update.

var rolloutKeys = slices.Concat([]entry{
	ready("rollout.engine", "who generates: local is this process, with the weights that are trained; openai is the endpoint of [rollout.api], which eval and rollout play with and which cannot be trained", oneOf([]string{"local", "openai"})),
	ready("rollout.group_size", "episodes per task and step", between(1, 4096)),
	ready("rollout.temperature", "divides the logits, in sampling and in every log-prob", aboveTo(0, 100)),
	ready("rollout.top_p", "share of probability kept when sampling; log-probs are of the kept tokens, also in the update", aboveTo(0, 1)),
	ready("rollout.top_k", "tokens kept when sampling, likewise; -1 or 0: all", topK),
	ready("rollout.max_new_tokens", "tokens of one reply", atLeast(1)),
	ready("rollout.max_context_tokens", "tokens of a whole episode", atLeast(2)),
	ready("rollout.max_sequences", "sessions in one decoding batch", between(1, 65536)),
	ready("rollout.max_batch_tokens", "prompt tokens in one prefill batch", atLeast(1)),
	ready("rollout.enable_prefix_caching", "compute what contexts begin with in common once, such as the prompt of a group's episodes; never where rollout.deterministic", anything),
	ready("rollout.kv_cache_fraction", "share of the host's free memory the KV cache may take where the model is on a CPU; the free memory of a GPU is not asked for: there the cache has room for max_sequences x max_context_tokens tokens, and a line at the start says what it takes", aboveTo(0, 0.95)),
	ready("rollout.ignore_eos", "let no token end a reply: it has max_new_tokens, unless the context or the format ends it first. For measuring; a model does not learn to stop that way", anything),
	ready("rollout.deterministic", "form batches in a fixed order: equal seeds give equal runs on a CPU, at some cost in speed", anything),
	ready("rollout.max_logprob_gap", "mean gap between sampled and recomputed log-probs that draws a warning; 0: the number format's own (1e-3 float32, 0.05 bfloat16)", atLeast(0)),
	ready("rollout.fail_on_logprob_gap", "end the run on such a gap", anything),
	fixed("rollout.record_log_probs", true, "keep the log-prob of every sampled token"),
	fixed("rollout.do_sample", true, "sample rather than take the likeliest token"),
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
		ready("rollout.api.key_env", "environment variable that holds the endpoint's key; none is sent if it is empty", keyVariable),
		ready("rollout.api.concurrency", "requests to the endpoint at once; 0: as many as episodes", between(0, 65536)),
		ready("rollout.api.timeout_s", "seconds one request to the endpoint may take", aboveTo(0, 86400)),
		ready("rollout.api.retries", "tries after the first, on 429, 5xx and broken replies", between(0, 100)),
	})

func (s *Schema) algoKeys() []entry {
	return slices.Concat([]entry{
		ready("algo.name", "what a step learns by: policy_gradient is advantages and a policy loss; agentevol is supervised training on the episodes that were won, beside the recorded trajectories of [sft]", oneOf([]string{"policy_gradient", "agentevol"})),
		ready("algo.adv_estimator", "advantage estimator (docs/algorithms.md)", oneOf(registry.NamesOf(s.words.Estimators, nil))),
	},
		s.estimators.keys(), []entry{
			ready("algo.filter_metric", "whose spread decides whether a group is learned from: seq_final_reward is what the episodes are paid, penalties included; score what the environment or the score functions gave; env_reward what the environment gave, whatever the score is made of", oneOf([]string{"seq_final_reward", "score", "env_reward"})),
			ready("algo.use_kl_in_reward", "take the KL to a frozen reference, a second copy of the weights, off the reward", anything),
			ready("algo.kl_penalty", "KL estimator of the KL in the reward", oneOf(registry.NamesOf(s.words.KLEstimators, nil))),
			ready("algo.kl_ctrl", "what becomes of kl_coef: it stays, or steers the KL towards kl_target", oneOf([]string{"fixed", "adaptive"})),
			ready("algo.kl_coef", "coefficient of the KL in the reward, for adaptive the first one", atLeast(0)),
			ready("algo.kl_target", "the KL that kl_ctrl = \"adaptive\" steers to", above(0)),
			ready("algo.kl_horizon", "episodes over which it does so", above(0)),
			ready("algo.filter_groups", "dynamic sampling: draw more tasks until as many groups as a step has tasks differ in filter_metric; groups that do not are always left out of the loss and counted", anything),
			ready("algo.max_gen_batches", "batches of tasks that filter_groups may play in a step; then the step learns from the groups there are, with a warning", atLeast(1)),
			ready("algo.pf_ppo", "draw a step's episodes anew by what their scores say; empty: take each once", oneOf(append([]string{""}, registry.NamesOf(s.words.Reweightings, nil)...))),
		},
		s.reweightings.keys(),
		[]entry{
			ready("algo.agentevol.per_task", "episodes of a task that a step keeps at most; 0: all that were won", atLeast(0)),
			ready("algo.agentevol.replay", "trajectories that a step learns from beside those it kept, drawn from the recorded ones and those that earlier steps kept", orAll),
		},
		[]entry{
			ready("algo.rollout_correction.rollout_is", "importance weights of the losses, for what sampling and training disagree on; empty: none", oneOf([]string{"", "token", "sequence"})),
			ready("algo.rollout_correction.rollout_is_threshold", "largest weight", above(0)),
			ready("algo.rollout_correction.rollout_is_threshold_lower", "IcePop: weights below this and above rollout_is_threshold are 0; 0: larger ones are cut to the threshold", atLeast(0)),
			ready("algo.rollout_correction.rollout_is_batch_normalize", "divide the weights by their mean", anything),
			ready("algo.rollout_correction.rollout_rs", "rules that take tokens or episodes out of the loss", eachOf(registry.NamesOf(s.words.Rejections, nil))),
			ready("algo.rollout_correction.rollout_rs_threshold", "the threshold of each rule, as text: an upper bound, for k1 two ratios such as \"0.5_2\"", thresholds),
			ready("algo.rollout_correction.bypass_mode", "let the recorded log-probs stand for the old ones, without a pass that recomputes them", anything),
			ready("algo.rollout_correction.loss_type", "the loss of bypass_mode", oneOf([]string{"ppo_clip", "reinforce"})),
		})
}

func (s *Schema) actorKeys() []entry {
	var kls []string
	for _, name := range registry.NamesOf(s.words.KLEstimators, nil) {
		kls = append(kls, name, name+"+")
	}
	return slices.Concat([]entry{
		ready("actor.mini_batch_size", "episodes per optimiser step, at most: where that does not divide them, all mini-batches are as even as can be; 0: all of the step's, one update", atLeast(0)),
		ready("actor.micro_batch_size", "episodes per forward and backward pass; changes memory and speed, not the result", atLeast(1)),
		ready("actor.dynamic_batch", "cut passes by tokens rather than episodes", anything),
		ready("actor.max_tokens_per_micro_batch", "tokens per pass where dynamic_batch is on", atLeast(1)),
		ready("actor.ppo_epochs", "passes over the step's episodes", between(1, 1000)),
		ready("actor.shuffle", "draw the episodes of the mini-batches anew in every pass; false: take them in the order in which they were played", anything),
		ready("actor.policy_loss", "policy loss (docs/algorithms.md)", oneOf(registry.NamesOf(s.words.Losses, nil))),
		ready("actor.loss_agg", "how token losses become one number", oneOf(registry.NamesOf(s.words.Aggregations, nil))),
		ready("actor.loss_scale_factor", "what seq-mean-token-sum-norm divides by; 0: rollout.max_context_tokens", atLeast(0)),
	},
		s.losses.keys(), []entry{
			ready("actor.entropy_coef", "weight of the entropy bonus", atLeast(0)),
			ready("actor.calculate_entropy", "report the entropy, by turn, also where entropy_coef is 0", anything),
			ready("actor.use_kl_loss", "add the KL to a frozen reference to the loss; it is a second copy of the weights, unless these are frozen themselves (lora_rank)", anything),
			ready("actor.kl_loss_coef", "weight of the KL loss", atLeast(0)),
			ready("actor.kl_loss_type", "KL estimator; with a + it has the gradient of k2; full takes the whole vocabulary", oneOf(append(kls, "full"))),
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
		optimKeys("actor.optim"))
}

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

// criticKeys are read where the estimator is gae.
var criticKeys = slices.Concat([]entry{
	ready("critic.path", "weights the critic starts from; empty: the actor's before the first step", anything),
	ready("critic.shared", "put the critic's head on the actor's own decoder: one forward pass for both and no second model; mini_batch_size, micro_batch_size, epochs and shuffle are then those of its warm-up, grad_clip and optim those of the head", anything),
	ready("critic.vf_coef", "shared: weight of the value loss beside the policy loss", above(0)),
	ready("critic.clip_range_value", "a value is clipped to what it was before the update, up and down by this", above(0)),
	ready("critic.mini_batch_size", "episodes per optimiser step of the critic, at most; 0: all of the step's", atLeast(0)),
	ready("critic.micro_batch_size", "episodes per pass of the critic; changes memory and speed, not the result", atLeast(1)),
	ready("critic.grad_clip", "global L2 norm of the critic's gradient", above(0)),
	ready("critic.epochs", "passes of the critic over the step's episodes", between(1, 1000)),
	ready("critic.shuffle", "draw the episodes of the critic's mini-batches anew in every pass", anything),
	ready("critic.gradient_checkpointing", "compute the critic's activations again in its backward pass instead of keeping them: the same gradients from less memory, in about a third more time", anything),
	fixed("critic.offload_params", false, "keep the critic in host memory between phases"),
	ready("critic.offload_optimizer", "keep the moments of the critic's optimiser in host memory but while the critic is updated, on a GPU", anything),
	moved("critic.param_dtype", "the critic has model.master_dtype and computes in model.compute_dtype"),
	moved("critic.forward_micro_batch_size", "write critic.micro_batch_size"),
	moved("critic.dynamic_batch", "the critic follows actor.dynamic_batch"),
	moved("critic.max_tokens_per_micro_batch", "the critic follows actor.max_tokens_per_micro_batch"),
},
	optimKeys("critic.optim"))

var refKeys = []entry{
	ready("ref.path", "weights of the reference; empty: those the run starts from", anything),
	ready("ref.micro_batch_size", "episodes per forward pass of the reference", atLeast(1)),
	ready("ref.offload_params", "keep the reference in host memory but while it scores, on a GPU", anything),
	moved("ref.dynamic_batch", "the reference follows actor.dynamic_batch"),
	moved("ref.max_tokens_per_micro_batch", "the reference follows actor.max_tokens_per_micro_batch"),
}
