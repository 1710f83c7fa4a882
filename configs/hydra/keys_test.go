package hydra

import (
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/configs"
)

// upstream has the keys in the documentation and the default files of the trainers
// (spec 1.3, 1.5, 1.6). The part before a colon is the prefix of the keys after it.
const upstream = `
data: tokenizer train_files val_files train_data_num val_data_num prompt_key max_prompt_length max_response_length max_start_length
	max_obs_length train_batch_size val_batch_size return_raw_input_ids return_raw_chat shuffle_train_dataloader env_name
	env_server_base env_ports env_data_len react_format rollout_strategy max_workers truncation filter_overlong_prompts seed
	train_max_samples validation_shuffle
actor_rollout_ref: hybrid_engine
actor_rollout_ref.model: path external_lib override_config enable_gradient_checkpointing use_remove_padding trust_remote_code torch_dtype
actor_rollout_ref.actor: strategy ppo_mini_batch_size ppo_micro_batch_size use_dynamic_bsz ppo_max_token_len_per_gpu grad_clip
	state_masking clip_ratio entropy_coeff use_kl_loss kl_loss_coef kl_loss_type ppo_epochs shuffle ulysses_sequence_parallel_size
	optim.lr optim.lr_warmup_steps_ratio optim.min_lr_ratio optim.warmup_style optim.total_training_steps optim.betas
	optim.weight_decay fsdp_config.wrap_policy.min_num_params fsdp_config.param_offload fsdp_config.grad_offload
	fsdp_config.optimizer_offload fsdp_config.fsdp_size fsdp_config.model_dtype fsdp_config.torch_dtype
	fsdp_config.mixed_precision.param_dtype fsdp_config.mixed_precision.reduce_dtype fsdp_config.mixed_precision.buffer_dtype
	clip_ratio_low clip_ratio_high clip_ratio_c loss_agg_mode loss_scale_factor policy_loss.loss_mode policy_loss.clip_cov_ratio
	policy_loss.clip_cov_lb policy_loss.clip_cov_ub policy_loss.kl_cov_ratio policy_loss.ppo_kl_coef policy_loss.dro_beta tau_pos tau_neg
	calculate_entropy calculate_sum_pi_squared data_loader_seed checkpoint.save_contents checkpoint.load_contents optim.lr_warmup_steps
	optim.lr_scheduler_type optim.num_cycles use_invalid_action_penalty invalid_action_penalty_coef
actor_rollout_ref.ref: fsdp_config.param_offload fsdp_config.wrap_policy.min_num_params fsdp_config.fsdp_size log_prob_micro_batch_size
	log_prob_use_dynamic_bsz log_prob_max_token_len_per_gpu ulysses_sequence_parallel_size
actor_rollout_ref.rollout: name temperature top_k top_p prompt_length response_length dtype gpu_memory_utilization ignore_eos
	enforce_eager free_cache_engine load_format tensor_model_parallel_size max_num_batched_tokens max_num_seqs
	log_prob_micro_batch_size log_prob_use_dynamic_bsz log_prob_max_token_len_per_gpu do_sample n n_agent max_workers mode
	val_kwargs.temperature val_kwargs.top_p val_kwargs.top_k val_kwargs.n val_kwargs.do_sample calculate_log_probs
	multi_turn.max_assistant_turns multi_turn.max_user_turns multi_turn.max_parallel_calls multi_turn.max_tool_response_length
	multi_turn.tool_response_truncate_side
: max_turns do_search retriever.url retriever.topk format_score
critic: strategy optim.lr optim.lr_warmup_steps_ratio optim.min_lr_ratio optim.warmup_style model.path model.tokenizer_path
	model.external_lib model.override_config model.enable_gradient_checkpointing model.use_remove_padding model.torch_dtype
	model.fsdp_config.param_offload model.fsdp_config.grad_offload model.fsdp_config.optimizer_offload ppo_mini_batch_size
	ppo_micro_batch_size forward_micro_batch_size use_dynamic_bsz ppo_max_token_len_per_gpu forward_max_token_len_per_gpu
	ppo_epochs shuffle grad_clip cliprange_value loss_agg_mode
reward_model: enable strategy model.input_tokenizer model.path model.external_lib model.use_remove_padding
	model.fsdp_config.min_num_params model.fsdp_config.param_offload micro_batch_size max_length use_dynamic_bsz
algorithm: gamma lam adv_estimator reward_score_fn no_think_rl kl_penalty kl_ctrl.type kl_ctrl.kl_coef kl_ctrl.target_kl
	kl_ctrl.horizon use_kl_in_reward reward_components.goal_reward.enabled reward_components.goal_reward.weight
	reward_components.length_penalty.enabled reward_components.length_penalty.weight reward_components.length_penalty.max_length
	reward_components.length_penalty.min_length reward_components.length_penalty.penalty_type
	reward_components.format_reward.enabled reward_components.format_reward.weight
	reward_components.format_reward.patterns_by_env.webshop reward_components.format_reward.patterns_by_env.default
	reward_allocation state_masking.start_state_marker state_masking.end_state_marker filter_groups.enable filter_groups.metric
	filter_groups.max_num_gen_batches gigpo.step_advantage_w gigpo.mode gigpo.enable_similarity gigpo.similarity_thresh norm_adv_by_std_in_grpo gdpo_reward_keys gdpo_reward_weights use_pf_ppo
	rollout_correction.rollout_is rollout_correction.rollout_is_threshold rollout_correction.rollout_is_batch_normalize
	rollout_correction.rollout_rs rollout_correction.rollout_rs_threshold rollout_correction.bypass_mode
	rollout_correction.loss_type
trainer: total_epochs total_training_steps project_name experiment_name logger nnodes n_gpus_per_node save_freq test_freq critic_warmup
	default_hdfs_dir default_local_dir val_only val_before_train balance_batch log_val_generations rollout_data_dir
	validation_data_dir resume_mode resume_from_path max_actor_ckpt_to_keep max_critic_ckpt_to_keep
env: env_name seed max_steps rollout.n history_length use_summary summary_api_key summary_endpoint summary_model summary_concurrency
	webshop.use_small webshop.human_goals data_path available_tools memory_file use_staged_format
`

// supervised has the keys of the SFT trainer (spec 1.7).
const supervised = `
data: train_files val_files train_batch_size micro_batch_size prompt_key response_key max_length truncation balance_dp_token
model: partial_pretrain lora_rank lora_alpha target_modules enable_gradient_checkpointing
optim: lr betas weight_decay warmup_steps_ratio clip_grad
trainer: total_epochs total_training_steps validate_before_training logger seed
`

func keysOf(text string) []string {
	var out []string
	at := ""
	for word := range strings.FieldsSeq(text) {
		if s, ok := strings.CutSuffix(word, ":"); ok {
			if at = s; at != "" {
				at += "."
			}
			continue
		}
		out = append(out, at+word)
	}
	return out
}

func TestEveryUpstreamKeyHasARow(t *testing.T) {
	for _, key := range keysOf(upstream) {
		if !ppoTrainer.has(key) {
			t.Errorf("%s has no row", key)
		}
	}
	for _, key := range keysOf(supervised) {
		if !sftTrainer.has(key) {
			t.Errorf("%s has no row of the SFT trainer", key)
		}
	}
}

// ours has the keys of the configuration in the specification (spec 1.8), each with
// the upstream key that it replaces, or - for a new key.
var ours = strings.NewReplacer("A.", actorAt, "M.", modelAt, "R.", rolloutAt).Replace(`
model.path=M.path model.tokenizer_path=data.tokenizer model.master_dtype=- model.compute_dtype=M.torch_dtype
model.gradient_checkpointing=M.enable_gradient_checkpointing model.remove_padding=M.use_remove_padding
data.train_files=data.train_files data.val_files=data.val_files data.train_limit=data.train_data_num data.val_limit=data.val_data_num
data.prompt_key=data.prompt_key data.max_prompt_tokens=data.max_prompt_length data.truncation=data.truncation
data.train_batch_size=data.train_batch_size data.val_batch_size=data.val_batch_size data.shuffle=data.shuffle_train_dataloader data.seed=data.seed
env.name=data.env_name env.server_base=data.env_server_base env.ports=data.env_ports env.num_servers=- env.timeout_s=- env.retries=-
agent.format=use_staged_format agent.max_turns=max_turns agent.max_obs_tokens=data.max_obs_length agent.history_length=env.history_length
agent.max_workers=R.max_workers agent.memory_file=memory_file
rollout.group_size=R.n_agent rollout.temperature=R.temperature rollout.top_p=R.top_p rollout.top_k=R.top_k
rollout.max_new_tokens=data.max_response_length rollout.max_context_tokens=data.max_prompt_length rollout.max_sequences=R.max_num_seqs
rollout.gpu_memory_utilization=R.gpu_memory_utilization rollout.record_log_probs=R.calculate_log_probs
rollout.val.temperature=R.val_kwargs.temperature rollout.val.group_size=R.val_kwargs.n
reward.signal=- reward.allocation=algorithm.reward_allocation reward.score_fn=algorithm.reward_score_fn reward.format_score=format_score
reward.invalid_action_penalty=A.invalid_action_penalty_coef
algo.adv_estimator=algorithm.adv_estimator algo.norm_by_std=algorithm.norm_adv_by_std_in_grpo algo.gamma=algorithm.gamma algo.lam=algorithm.lam
algo.use_kl_in_reward=algorithm.use_kl_in_reward algo.kl_penalty=algorithm.kl_penalty algo.kl_ctrl=algorithm.kl_ctrl.type
algo.kl_coef=algorithm.kl_ctrl.kl_coef algo.kl_target=algorithm.kl_ctrl.target_kl algo.kl_horizon=algorithm.kl_ctrl.horizon
algo.filter_groups=algorithm.filter_groups.enable algo.max_gen_batches=algorithm.filter_groups.max_num_gen_batches
algo.gigpo_step_weight=algorithm.gigpo.step_advantage_w algo.gigpo_norm=algorithm.gigpo.mode
actor.mini_batch_size=A.ppo_mini_batch_size actor.micro_batch_size=A.ppo_micro_batch_size actor.dynamic_batch=A.use_dynamic_bsz
actor.max_tokens_per_micro_batch=A.ppo_max_token_len_per_gpu actor.ppo_epochs=A.ppo_epochs actor.shuffle=A.shuffle
actor.policy_loss=A.policy_loss.loss_mode actor.loss_agg=A.loss_agg_mode actor.clip_ratio_low=A.clip_ratio actor.clip_ratio_high=A.clip_ratio
actor.clip_ratio_c=A.clip_ratio_c actor.entropy_coef=A.entropy_coeff actor.use_kl_loss=A.use_kl_loss actor.kl_loss_coef=A.kl_loss_coef
actor.kl_loss_type=A.kl_loss_type actor.grad_clip=A.grad_clip actor.mask_observations=A.state_masking
actor.optim.lr=A.optim.lr actor.optim.betas=A.optim.betas actor.optim.eps=- actor.optim.weight_decay=A.optim.weight_decay
actor.optim.schedule=A.optim.warmup_style actor.optim.warmup_ratio=A.optim.lr_warmup_steps_ratio actor.optim.min_lr_ratio=A.optim.min_lr_ratio
critic.path=critic.model.path critic.clip_range_value=critic.cliprange_value critic.micro_batch_size=critic.ppo_micro_batch_size
critic.grad_clip=critic.grad_clip critic.optim.lr=critic.optim.lr critic.optim.warmup_ratio=critic.optim.lr_warmup_steps_ratio
ref.path=actor_rollout_ref.ref.model.path ref.micro_batch_size=actor_rollout_ref.ref.log_prob_micro_batch_size
ref.offload_params=actor_rollout_ref.ref.fsdp_config.param_offload
trainer.project=trainer.project_name trainer.experiment=trainer.experiment_name trainer.epochs=trainer.total_epochs
trainer.total_steps=trainer.total_training_steps trainer.critic_warmup=trainer.critic_warmup trainer.save_every=trainer.save_freq
trainer.test_every=trainer.test_freq trainer.val_before_train=trainer.val_before_train trainer.val_only=trainer.val_only
trainer.keep_checkpoints=trainer.max_actor_ckpt_to_keep trainer.resume=trainer.resume_mode trainer.output_dir=trainer.default_local_dir
trainer.seed=- log.backends=trainer.logger log.level=- log.val_generations=trainer.log_val_generations
`)

func TestEveryKeyOfOursHasARow(t *testing.T) {
	known := map[string]bool{}
	for _, k := range schema.Keys() {
		known[k.Name] = true
	}
	for pair := range strings.FieldsSeq(ours) {
		key, from, _ := strings.Cut(pair, "=")
		if !known[key] {
			t.Errorf("%s is not a key of the configuration", key)
		}
		if from != "-" && !ppoTrainer.has(from) {
			t.Errorf("%s replaces %s, which has no row", key, from)
		}
	}
}

// TestRows checks that rows map to existing keys or have a taker, and that no key has two rows.
func TestRows(t *testing.T) {
	known := map[string]configs.Status{}
	for _, k := range schema.Keys() {
		known[k.Name] = k.Status
	}
	for _, table := range [][]row{ppoKeys, sftKeys} {
		var seen []string
		for _, entry := range table {
			if entry.to == "" && entry.take == nil || entry.source == "" {
				t.Errorf("%s has no target, no taker or no source", entry.key)
			}
			if entry.def != none {
				if _, err := ParseValue(entry.def); err != nil {
					t.Errorf("%s: %v", entry.key, err)
				}
			}
			for _, key := range spread(entry.key) {
				for to := range strings.FieldsSeq(entry.target(key)) {
					if s := known[to]; s != configs.Ready && s != configs.Fixed {
						t.Errorf("%s maps to %s, which has the status %q", key, to, s)
					}
				}
				if !isKey(strings.TrimSuffix(key, ".*")) || slices.Contains(seen, key) {
					t.Errorf("%s is listed twice, or is not a key", key)
				}
				seen = append(seen, key)
			}
		}
	}
}
