package hydra

import "strings"

// The table of keys maps every setting of the supported trainers. A row describes
// one key; {a,b} stands for several keys, and .* at the end for all keys below.
//
// Sources: OpenManus-RL's ppo_trainer.yaml and start scripts (spec 1.3), its
// version of September 2025 (spec 1.5), verl 0.8 (spec 1.6) and its
// sft_trainer.yaml (spec 1.7).

// The sources of keys.
const (
	omrl  = "OpenManus-RL"
	omrl2 = "OpenManus-RL, September 2025"
	verl  = "verl 0.8"
	sft   = "verl, SFT"
)

// none is the default of keys that are imported only if they are given.
const none = "-"

// row is one row of the table of keys.
type row struct {
	key    string
	to     string // our keys, separated by blanks; * stands for the last name of the key
	def    string // the trainer's default; the constant none: not imported unless given
	take   taker  // nil: unchanged
	note   string // shown if the key is mapped
	source string
}

// target returns the keys of this program for one key of the row.
func (r row) target(key string) string { return strings.ReplaceAll(r.to, "*", lastName(key)) }

// lastName returns the part of a key behind its last dot.
func lastName(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// readNowhere is the note of keys that the original accepts but never reads.
const readNowhere = "the original never reads it; here it works"

const (
	actorAt   = "actor_rollout_ref.actor."
	modelAt   = "actor_rollout_ref.model."
	refAt     = "actor_rollout_ref.ref."
	rolloutAt = "actor_rollout_ref.rollout."
	partsAt   = "algorithm.reward_components."
)

// The functions below return rows for frequent cases.

func mapped(source, key, to, def string) row { return row{key: key, to: to, def: def, source: source} }

// dead returns the row of keys that OpenManus-RL's trainer accepts but never reads.
// Later trainers read them.
func dead(source, key, to, def string) row {
	return mapped(source, key, to, def).noting(readNowhere)
}

func taken(source, key, to, def string, take taker) row {
	return row{key: key, to: to, def: def, take: take, source: source}
}

// noting adds a note.
func (r row) noting(note string) row {
	r.note = note
	return r
}

// dropped returns the row of keys whose values have no effect here.
func dropped(source, key, why string) row {
	return row{key: key, def: none, take: ignore(why), source: source}
}

// forgotten returns the row of keys without effect here or in OpenManus-RL.
func forgotten(source, key, why string) row {
	return taken(source, key, "", none, func(im *importer, r *Row, _ any) any {
		r.ignored(why)
		if im.of == omrl {
			r.ignored("the original never reads it; " + why)
		}
		return nil
	})
}

// refused returns the row of an unsupported key. A key with one of the listed values is ignored instead.
func refused(source, key, instead string, fine ...any) row {
	return row{key: key, def: none, take: only(instead, fine...), source: source}
}

const (
	oneDevice   = "a sequence is on one device"
	processes   = "--processes of openmanus train or a launcher such as torchrun sets the number of processes (docs/distributed.md)"
	shards      = "dist.shard shards the model over the processes"
	engineOwn   = "it configures an engine that is not used here: sampling and training share the weights in one process"
	weightsOnce = "sampling and training share one copy of the weights, which is never moved"
	formats     = "used by forward and backward passes; the optimiser updates float32 weights"
	allRuns     = "the folder of all runs; each run has a folder in it"
	keepEvery   = "episodes are kept in the folder rollouts of the run; trainer.keep_rollouts bounds their number"
)

// ppoKeys are the keys of main_ppo in the order in which they are applied. If two
// of them set the same key of this program, the later one applies.
var ppoKeys = []row{
	// ---- data (spec 1.3)
	taken(omrl, "data.env_name", "env.name", "webshop", envName),
	taken(omrl2, "env.env_name", "env.name", none, envName),
	taken(omrl, "data.env_server_base", "env.servers", "http://0.0.0.0", hold),
	taken(omrl, "data.env_ports", "env.servers", "[36001]", servers),
	mapped(omrl, "data.train_files", "env.tasks", none),
	mapped(omrl, "data.val_files", "env.val_tasks", none),
	dead(omrl, "data.tokenizer", "model.tokenizer_path", none),
	taken(omrl, "data.train_data_num", "data.train_limit", none, limit),
	taken(omrl, "data.val_data_num", "data.val_limit", none, limit),
	taken(verl, "data.train_max_samples", "data.train_limit", none, limit),
	taken(verl, "data.val_max_samples", "data.val_limit", none, limit),
	taken(omrl, "data.prompt_key", "data.prompt_key", none, promptKey),
	taken(verl, "data.reward_fn_key", "env.source_key", none, ofPrompts),
	taken(verl, "{data.apply_chat_template_kwargs,data.apply_chat_template_kwargs.*}", "model.chat_template_kwargs", none, hold),
	taken(omrl, "data.max_prompt_length", "data.max_prompt_tokens rollout.max_context_tokens", "512", promptLength).
		noting("bounds the conversation before a reply; a whole episode may be longer by data.max_response_length"),
	mapped(omrl, "data.max_response_length", "rollout.max_new_tokens", "512").noting("tokens of one reply; the original trains on this many tokens at the end of a conversation, openmanus on the whole conversation"),
	forgotten(omrl, "data.max_start_length", "data.max_prompt_tokens bounds the first prompt"),
	dead(omrl, "data.max_obs_length", "agent.max_obs_tokens", none),
	mapped(omrl, "data.train_batch_size", "data.train_batch_size", "1024"),
	dropped(verl, "data.gen_batch_size", "with algo.filter_groups a step draws data.train_batch_size tasks at a time"),
	dropped(omrl, "data.val_batch_size", "validation plays every task; rollout.max_sequences bounds how many at once"),
	forgotten(omrl, "data.return_raw_input_ids", "token ids are always kept"),
	dropped(omrl, "data.return_raw_chat", "messages are always kept"),
	mapped(omrl, "data.shuffle_train_dataloader", "data.shuffle", none),
	mapped(verl, "data.{shuffle,seed}", "data.*", none),
	dropped(verl, "data.validation_shuffle", "validation takes tasks in order"),
	dropped(omrl, "data.env_data_len", "the length of the task list is used"),
	forgotten(omrl, "data.react_format", "agent.format sets how the model writes actions"),
	forgotten(omrl, "data.rollout_strategy", "every episode is played to its end"),
	dead(omrl, "data.max_workers", "agent.max_workers", none),
	taken(omrl2, "data.truncation", "data.truncation", none, truncation),
	mapped(omrl2, "data.filter_overlong_prompts", "data.filter_overlong", none),
	dropped(verl, "data.{filter_overlong_prompts_workers,dataloader_num_workers,trust_remote_code,image_key,video_key,return_full_prompt,return_multi_modal_inputs,use_shm}",
		"it configures a data loader that is not used here"),
	refused(verl, "data.custom_cls.*", "name a scoring program with reward.score_fn = \"exec:…\"", nil),

	// ---- model (spec 1.3)
	dropped(omrl, "actor_rollout_ref.hybrid_engine", weightsOnce),
	taken(omrl, modelAt+"path", "model.path", "~/models/deepseek-llm-7b-chat", notNull(modelPath)),
	refused(omrl, modelAt+"external_lib", "Python modules cannot be imported", nil),
	refused(omrl, modelAt+"override_config", "change the model's config.json", map[string]any{}),
	refused(omrl, modelAt+"override_config.*", "change the model's config.json", nil),
	mapped(omrl, modelAt+"enable_gradient_checkpointing", "model.gradient_checkpointing", none),
	refused(omrl, modelAt+"use_remove_padding", "rows are always packed, without padding", true, false),
	dropped(omrl, modelAt+"trust_remote_code", "code in a model folder is never run"),
	taken(verl, modelAt+"custom_chat_template", "model.chat_template", none, notNull(unchanged)),
	taken(omrl, modelAt+"torch_dtype", "model.compute_dtype", none, notNull(computeDtype)).noting(formats),
	mapped(verl, modelAt+"{lora_rank,lora_alpha,target_modules}", "model.*", none),
	dropped(verl, modelAt+"{use_shm,use_liger,use_fused_kernels,enable_activation_offload,exclude_modules,fused_kernel_options.impl_backend}", engineOwn),

	// ---- actor (spec 1.3, 1.6)
	refused(omrl, actorAt+"strategy", shards, "fsdp", "fsdp2"),
	taken(omrl, actorAt+"ppo_mini_batch_size", "actor.mini_batch_size", "256", hold),
	mapped(omrl, actorAt+"{ppo_micro_batch_size,ppo_micro_batch_size_per_gpu}", "actor.micro_batch_size", none),
	mapped(omrl, actorAt+"use_dynamic_bsz", "actor.dynamic_batch", none),
	mapped(omrl, actorAt+"ppo_max_token_len_per_gpu", "actor.max_tokens_per_micro_batch", none),
	mapped(omrl, actorAt+"grad_clip", "actor.grad_clip", none),
	refused(omrl, actorAt+"state_masking", "the loss covers sampled tokens only, never observations", true),
	mapped(omrl, actorAt+"clip_ratio", "actor.clip_ratio_low actor.clip_ratio_high", "0.2"),
	mapped(verl, actorAt+"{clip_ratio_low,clip_ratio_high,clip_ratio_c}", "actor.*", none),
	mapped(omrl, actorAt+"entropy_coeff", "actor.entropy_coef", "0.001"),
	mapped(omrl, actorAt+"{use_kl_loss,kl_loss_coef,kl_loss_type}", "actor.*", none),
	dead(omrl, actorAt+"{ppo_epochs,shuffle}", "actor.*", none),
	refused(omrl, actorAt+"ulysses_sequence_parallel_size", oneDevice, int64(1)),
	mapped(verl, actorAt+"loss_agg_mode", "actor.loss_agg", none),
	mapped(verl, actorAt+"loss_scale_factor", "actor.loss_scale_factor", none),
	mapped(verl, actorAt+"policy_loss.loss_mode", "actor.policy_loss", none),
	mapped(verl, actorAt+"policy_loss.{clip_cov_ratio,clip_cov_lb,clip_cov_ub,kl_cov_ratio,ppo_kl_coef,dro_beta}", "actor.*", none),
	mapped(verl, actorAt+"{tau_pos,policy_loss.tau_pos,tau_neg,policy_loss.tau_neg,calculate_entropy}", "actor.*", none),
	dropped(verl, actorAt+"calculate_sum_pi_squared", "it is computed if the advantage estimator needs it"),
	dropped(verl, actorAt+"{data_loader_seed,use_torch_compile,checkpoint.save_contents,checkpoint.load_contents,entropy_from_logits_with_chunking,entropy_checkpointing,checkpoint.contents}",
		"checkpoints are always complete, and this detail of the computation is fixed"),
	taken(omrl2, actorAt+"invalid_action_penalty_coef", "reward.invalid_action_penalty", none, where(actorAt+"use_invalid_action_penalty")),
	taken(omrl2, actorAt+"use_invalid_action_penalty", "reward.invalid_action_penalty", none, invalidPenalty),
	mapped(omrl, actorAt+"optim.lr", "actor.optim.lr", none),
	mapped(omrl, actorAt+"optim.lr_warmup_steps_ratio", "actor.optim.warmup_ratio", none),
	taken(verl, actorAt+"optim.lr_warmup_steps", "actor.optim.warmup_steps", none, warmupSteps),
	dead(omrl, actorAt+"optim.warmup_style", "actor.optim.schedule", none),
	mapped(verl, actorAt+"optim.lr_scheduler_type", "actor.optim.schedule", none),
	dead(omrl, actorAt+"optim.min_lr_ratio", "actor.optim.min_lr_ratio", none),
	dropped(omrl, actorAt+"optim.total_training_steps", "trainer.total_steps sets it"),
	mapped(omrl, actorAt+"optim.{betas,weight_decay}", "actor.optim.*", none),
	refused(verl, actorAt+"optim.num_cycles", "the cosine schedule is half a cycle", 0.5),
	dropped(omrl, actorAt+"fsdp_config.wrap_policy.min_num_params", shards),
	refused(omrl, actorAt+"fsdp_config.param_offload", weightsOnce, true, false),
	refused(omrl, actorAt+"fsdp_config.grad_offload", "gradients are freed after every step", true, false),
	mapped(omrl, actorAt+"fsdp_config.optimizer_offload", "actor.offload_optimizer", none),
	forgotten(omrl, actorAt+"fsdp_config.fsdp_size", shards),
	dropped(omrl, actorAt+"fsdp_config.{model_dtype,torch_dtype}", "the optimiser updates float32 weights"),
	taken(omrl, actorAt+"fsdp_config.mixed_precision.param_dtype", "model.compute_dtype", none, notNull(computeDtype)).noting(formats),
	dropped(omrl, actorAt+"fsdp_config.mixed_precision.{reduce_dtype,buffer_dtype}", "gradients are accumulated in float32"),
	dropped(verl, actorAt+"fsdp_config.{forward_prefetch,reshard_after_forward,offload_policy}", shards),

	// ---- reference (spec 1.3)
	mapped(omrl, refAt+"fsdp_config.param_offload", "ref.offload_params", none),
	dropped(omrl, refAt+"fsdp_config.{wrap_policy.min_num_params,fsdp_size,forward_prefetch}", shards),
	mapped(omrl, refAt+"{log_prob_micro_batch_size,log_prob_micro_batch_size_per_gpu}", "ref.micro_batch_size", none),
	dropped(omrl, refAt+"{log_prob_use_dynamic_bsz,log_prob_max_token_len_per_gpu}", "the reference follows actor.dynamic_batch"),
	refused(omrl, refAt+"ulysses_sequence_parallel_size", oneDevice, int64(1)),
	mapped(verl, refAt+"model.path", "ref.path", none),
	dropped(verl, refAt+"{strategy,use_torch_compile}", engineOwn),

	// ---- rollout (spec 1.3, 1.5, 1.6)
	taken(omrl, rolloutAt+"name", "rollout.engine", none, engine).noting("replies are generated in this process with the weights in training"),
	dropped(verl, rolloutAt+"mode", "episodes are independent, and their replies are generated in batches"),
	mapped(omrl, rolloutAt+"{temperature,top_k}", "rollout.*", none),
	mapped(omrl, rolloutAt+"top_p", "rollout.top_p", none).noting("log-probs are renormalised over the kept tokens, in the update as well; the original normalises over all tokens. The default is 1, the original's 0.95"),
	dropped(omrl, rolloutAt+"{prompt_length,response_length,max_model_len}", "rollout.max_context_tokens bounds a conversation, rollout.max_new_tokens a reply"),
	dropped(omrl, rolloutAt+"dtype", "sampling and training compute in model.compute_dtype"),
	mapped(omrl, rolloutAt+"gpu_memory_utilization", "rollout.gpu_memory_utilization", none).noting("the cache is not larger than rollout.max_sequences x rollout.max_context_tokens. On a CPU rollout.kv_cache_fraction limits it"),
	mapped(omrl, rolloutAt+"free_cache_engine", "rollout.free_cache_engine", none).noting("it applies to a GPU only"),
	mapped(omrl, rolloutAt+"enforce_eager", "rollout.enforce_eager", none).noting("it applies to a GPU only; the default is false"),
	mapped(omrl, rolloutAt+"ignore_eos", "rollout.ignore_eos", none),
	dropped(omrl, rolloutAt+"{load_format,enable_chunked_prefill,disable_log_stats,layered_summon,multi_stage_wake_up,cudagraph_capture_sizes}", engineOwn),
	refused(omrl, rolloutAt+"{data_parallel_size,pipeline_model_parallel_size}", oneDevice, int64(1)),
	mapped(omrl, rolloutAt+"tensor_model_parallel_size", "rollout.tensor_parallel_size", none).noting("train with --processes, a multiple of it"),
	dropped(verl, rolloutAt+"{engine_kwargs.*,agent.*,update_weights_bucket_megabytes,skip_tokenizer_init}", engineOwn),
	dead(omrl, rolloutAt+"max_num_batched_tokens", "rollout.max_batch_tokens", none),
	dead(omrl, rolloutAt+"max_num_seqs", "rollout.max_sequences", none),
	dropped(omrl, rolloutAt+"{log_prob_micro_batch_size,log_prob_micro_batch_size_per_gpu}", "old log-probs are computed with actor.micro_batch_size"),
	dropped(omrl, rolloutAt+"{log_prob_use_dynamic_bsz,log_prob_max_token_len_per_gpu}", "old log-probs follow actor.dynamic_batch"),
	mapped(omrl, rolloutAt+"do_sample", "rollout.do_sample", none),
	mapped(omrl, rolloutAt+"n", "rollout.group_size", "1"),
	mapped(omrl, rolloutAt+"n_agent", "rollout.group_size", none).noting("episodes of a task; " + readNowhere),
	mapped(omrl2, "env.rollout.n", "rollout.group_size", none),
	mapped(omrl, rolloutAt+"max_workers", "agent.max_workers", none),
	taken(verl, rolloutAt+"calculate_log_probs", "rollout.record_log_probs", none, ignore("the log-prob of every sampled token is always kept")),
	mapped(omrl2, rolloutAt+"val_kwargs.temperature", "rollout.val.temperature", none),
	taken(omrl2, rolloutAt+"val_kwargs.do_sample", "rollout.val.temperature", none, valGreedy),
	mapped(verl, rolloutAt+"val_kwargs.n", "rollout.val.group_size", none),
	mapped(verl, rolloutAt+"enable_prefix_caching", "rollout.enable_prefix_caching", none),
	refused(verl, rolloutAt+"val_kwargs.top_p", "validation does not restrict sampling", int64(1), 1.0),
	refused(verl, rolloutAt+"val_kwargs.top_k", "validation does not restrict sampling", int64(-1), int64(0)),
	taken(verl, rolloutAt+"multi_turn.enable", "", none, manyTurns),
	mapped(verl, rolloutAt+"multi_turn.{max_assistant_turns,max_turns}", "agent.max_turns", none),
	dropped(verl, rolloutAt+"multi_turn.max_user_turns", "the environment answers every turn; agent.max_turns bounds them"),
	refused(verl, rolloutAt+"multi_turn.max_parallel_calls", "a turn has one action", int64(1)),
	refused(verl, rolloutAt+"multi_turn.{max_tool_response_length,tool_response_truncate_side}", "it counts characters; set agent.max_obs_tokens instead"),
	refused(verl, rolloutAt+"multi_turn.{tool_config_path,interaction_config_path,format}", "tools and simulated users belong to environment servers; name a server in [[env]]", nil),

	// ---- top level (spec 1.3, 1.5)
	mapped(omrl, "max_turns", "agent.max_turns", none),
	mapped(omrl2, "env.max_steps", "agent.max_turns", none),
	forgotten(omrl, "{do_search,retriever.url,retriever.topk}", "the environment searchqa searches"),
	mapped(omrl, "format_score", "reward.format_score", none),
	refused(omrl2, "env.seed", "the index of a task determines its content; trainer.seed and data.seed control all other randomness"),
	taken(omrl2, "env.history_length", "agent.history_length agent.format", none, history),
	taken(omrl2, "env.use_summary", "env.use_summary agent.format", none, summary),
	mapped(omrl2, "env.summary_endpoint", "agent.summary.base_url", none),
	mapped(omrl2, "env.summary_model", "agent.summary.model", none),
	mapped(omrl2, "env.summary_concurrency", "agent.summary.concurrency", none),
	refused(omrl2, "env.summary_api_key", "keys are not stored in configurations; put it into the environment variable that agent.summary.key_env names", nil),
	refused(omrl2, "env.webshop.*", "set it when you start the webshop server"),
	refused(omrl2, "env.{data_path,available_tools}", "set it when you start the gaia server"),
	dropped(verl, "env.resources_per_worker.*", "environments are separate servers"),
	taken(omrl2, "{env.memory_file,memory_file}", "agent.memory_file agent.format", none, staged),
	taken(omrl2, "{env.use_staged_format,use_staged_format}", "agent.format", none, stagedFormat),

	// ---- critic (spec 1.3)
	refused(omrl, "critic.strategy", shards, "fsdp", "fsdp2"),
	mapped(omrl, "critic.optim.lr", "critic.optim.lr", none),
	mapped(omrl, "critic.optim.lr_warmup_steps_ratio", "critic.optim.warmup_ratio", "0.0"),
	taken(verl, "critic.optim.lr_warmup_steps", "critic.optim.warmup_steps", none, warmupSteps),
	dead(omrl, "critic.optim.warmup_style", "critic.optim.schedule", none),
	mapped(verl, "critic.optim.lr_scheduler_type", "critic.optim.schedule", none),
	dead(omrl, "critic.optim.min_lr_ratio", "critic.optim.min_lr_ratio", none),
	dropped(omrl, "critic.optim.total_training_steps", "trainer.total_steps sets it"),
	mapped(verl, "critic.optim.{betas,weight_decay}", "critic.optim.*", none),
	taken(omrl, "critic.model.path", "critic.path", none, notNull(modelPath)),
	dropped(omrl, "critic.model.tokenizer_path", "the critic uses the actor's tokenizer"),
	refused(omrl, "critic.model.external_lib", "Python modules cannot be imported", nil),
	refused(omrl, "critic.model.override_config", "change the model's config.json", map[string]any{}),
	mapped(omrl, "critic.model.enable_gradient_checkpointing", "critic.gradient_checkpointing", none),
	refused(omrl, "critic.model.use_remove_padding", "rows are always packed, without padding", true, false),
	dropped(omrl, "critic.model.{torch_dtype,trust_remote_code}", "the critic uses the actor's number formats"),
	mapped(omrl, "critic.model.fsdp_config.optimizer_offload", "critic.offload_optimizer", none),
	refused(omrl, "critic.model.fsdp_config.{param_offload,grad_offload}", "the critic is not offloaded; if memory runs out, lower critic.micro_batch_size or set critic.gradient_checkpointing", true, false),
	dropped(omrl, "critic.model.fsdp_config.{wrap_policy.min_num_params,fsdp_size}", shards),
	mapped(omrl, "critic.ppo_mini_batch_size", "critic.mini_batch_size", none),
	mapped(omrl, "critic.{ppo_micro_batch_size,ppo_micro_batch_size_per_gpu}", "critic.micro_batch_size", none),
	dropped(omrl, "critic.{forward_micro_batch_size,forward_micro_batch_size_per_gpu}", "values are computed with critic.micro_batch_size"),
	dropped(omrl, "critic.{use_dynamic_bsz,ppo_max_token_len_per_gpu,forward_max_token_len_per_gpu}", "the critic follows actor.dynamic_batch"),
	refused(omrl, "critic.ulysses_sequence_parallel_size", oneDevice, int64(1)),
	dead(omrl, "critic.ppo_epochs", "critic.epochs", none),
	dead(omrl, "critic.shuffle", "critic.shuffle", none),
	mapped(omrl, "critic.grad_clip", "critic.grad_clip", none),
	refused(verl, "critic.loss_agg_mode", "the critic's loss is the mean over the tokens of a mini-batch", "token-mean"),
	mapped(omrl, "critic.cliprange_value", "critic.clip_range_value", none),

	// ---- reward model (spec 1.3)
	refused(omrl, "reward_model.enable", "set reward.score_fn = \"model\" and reward.model_path to the folder of the reward model", false),
	taken(verl, "reward_model.{overlong_buffer,reward_kwargs.overlong_buffer_cfg}.{enable,len,penalty_factor}", "reward.components.overlong_buffer", none, hold),
	taken(verl, "reward_model.reward_kwargs.max_resp_len", "reward.components.max_length", none, hold),
	dropped(verl, "reward_model.{overlong_buffer,reward_kwargs.overlong_buffer_cfg}.log", "the score of every component is a metric"),
	taken(verl, "reward_model.reward_manager", "reward.score_fn", none, rewardManager),
	dropped(omrl, "reward_model.{strategy,model.*,micro_batch_size,micro_batch_size_per_gpu,max_length,use_dynamic_bsz,forward_max_token_len_per_gpu,launch_reward_fn_async}",
		"reward.model_path names the reward model"),
	refused(verl, "custom_reward_function.{path,name}", "use a program: reward.score_fn = \"exec:python3 my_reward.py\"", nil),

	// ---- algorithm (spec 1.3, 1.5, 1.6)
	taken(omrl, "algorithm.adv_estimator", "algo.adv_estimator", "gae", estimator),
	taken(omrl, "algorithm.gamma", "algo.gamma reward.gamma", none, gamma),
	dead(omrl, "algorithm.lam", "algo.lam", none),
	mapped(omrl, "algorithm.reward_score_fn", "reward.score_fn", none).noting(readNowhere + "; leave it out to train on the environment's reward alone, as the original does"),
	forgotten(omrl, "algorithm.no_think_rl", "leave it out"),
	mapped(omrl, "algorithm.kl_penalty", "algo.kl_penalty", none),
	mapped(omrl, "algorithm.kl_ctrl.type", "algo.kl_ctrl", none),
	mapped(omrl, "algorithm.kl_ctrl.kl_coef", "algo.kl_coef", none),
	mapped(omrl, "algorithm.kl_ctrl.target_kl", "algo.kl_target", none),
	mapped(omrl, "algorithm.kl_ctrl.horizon", "algo.kl_horizon", none),
	mapped(omrl, "algorithm.use_kl_in_reward", "algo.use_kl_in_reward", none).noting("applied to every row; the original applies it to the first two rows only"),
	mapped(omrl, "algorithm.reward_allocation", "reward.allocation", none),
	taken(omrl, partsAt+"{goal_reward.*,length_penalty.*,format_reward.*}", "reward.components.weight", none, hold).noting(readNowhere),
	forgotten(omrl, "algorithm.state_masking.{start_state_marker,end_state_marker}", "every token is recorded as sampled or observed"),
	refused(verl, "algorithm.{gdpo_reward_keys,gdpo_reward_weights}", "gdpo compares the parts of the reward; list them in [reward.components] with their weights", nil),
	mapped(verl, "algorithm.norm_adv_by_std_in_grpo", "algo.norm_by_std", none),
	mapped(omrl2, "algorithm.filter_groups.enable", "algo.filter_groups", none),
	taken(verl, "algorithm.filter_groups.metric", "algo.filter_metric", none, filterMetric),
	mapped(omrl2, "algorithm.filter_groups.max_num_gen_batches", "algo.max_gen_batches", none),
	mapped(omrl2, "algorithm.gigpo.step_advantage_w", "algo.gigpo_step_weight", none),
	mapped(omrl2, "algorithm.gigpo.mode", "algo.gigpo_norm", none),
	taken(omrl2, "algorithm.gigpo.enable_similarity", "algo.gigpo_similarity_thresh", none, gigpoSimilarity),
	taken(omrl2, "algorithm.gigpo.similarity_thresh", "algo.gigpo_similarity_thresh", none, where("algorithm.gigpo.enable_similarity")),
	taken(verl, "algorithm.pf_ppo.reweight_method", "algo.pf_ppo", none, where("algorithm.use_pf_ppo")),
	taken(verl, "algorithm.use_pf_ppo", "algo.pf_ppo", none, pfPPO),
	mapped(verl, "algorithm.pf_ppo.weight_pow", "algo.pf_ppo_weight_pow", none),
	mapped(verl, "algorithm.rollout_correction.rollout_is", "algo.rollout_correction.rollout_is", none),
	taken(verl, "algorithm.rollout_correction.rollout_is_threshold", "algo.rollout_correction.rollout_is_threshold algo.rollout_correction.rollout_is_threshold_lower", none, isThreshold),
	mapped(verl, "algorithm.rollout_correction.rollout_is_batch_normalize", "algo.rollout_correction.rollout_is_batch_normalize", none),
	taken(verl, "algorithm.rollout_correction.{rollout_rs,rollout_rs_threshold}", "algo.rollout_correction.*", none, notNull(texts)),
	mapped(verl, "algorithm.rollout_correction.{bypass_mode,loss_type}", "algo.rollout_correction.*", none),

	// ---- trainer (spec 1.3, 1.6)
	mapped(omrl, "trainer.total_epochs", "trainer.epochs", "30"),
	taken(omrl, "trainer.total_training_steps", "trainer.total_steps", "null", totalSteps),
	mapped(omrl, "trainer.project_name", "trainer.project", none),
	taken(omrl, "trainer.experiment_name", "trainer.experiment", none, notNull(folder)),
	taken(omrl, "trainer.logger", "log.backends", none, loggers),
	dropped(omrl, "trainer.{nnodes,n_gpus_per_node}", processes),
	taken(omrl, "trainer.save_freq", "trainer.save_every", "-1", every),
	taken(omrl, "trainer.test_freq", "trainer.test_every", "-1", every),
	taken(omrl, "trainer.critic_warmup", "trainer.critic_warmup", none, notNull(criticWarmup)),
	refused(omrl, "trainer.default_hdfs_dir", "copy the run folder yourself", nil),
	taken(omrl, "trainer.default_local_dir", "trainer.output_dir", none, notNull(localDir)).noting(allRuns),
	dead(omrl, "trainer.val_before_train", "trainer.val_before_train", none),
	refused(omrl, "trainer.val_only", "use openmanus eval CONFIG.toml", false),
	dropped(verl, "trainer.balance_batch", "rows are always dealt by their tokens"),
	dropped(verl, "trainer.{device,ray_wait_register_center_timeout,use_legacy_worker_impl,profile_steps,critic_device}", "it configures workers of Ray"),
	dropped(verl, "trainer.{log_val_generations,rollout_data_dir,validation_data_dir}", keepEvery),
	taken(verl, "trainer.resume_mode", "trainer.resume", none, resumeMode),
	taken(verl, "trainer.resume_from_path", "trainer.resume", none, resumePath),
	taken(verl, "trainer.max_actor_ckpt_to_keep", "trainer.keep_checkpoints", none, limit),
	dropped(verl, "trainer.{max_critic_ckpt_to_keep,del_local_ckpt_after_load,remove_previous_ckpt_in_save}", "trainer.keep_checkpoints applies to both"),
	dropped(verl, "{ray_init.*,ray_kwargs.*,global_profiler.*,hydra.*,transfer_queue.*}", "openmanus does not use a cluster"),
}

// sftKeys are the keys of the SFT trainer (spec 1.7).
var sftKeys = []row{
	taken(sft, "data.train_files", "sft.files", none, notNull(texts)),
	taken(sft, "data.val_files", "sft.val_files", none, notNull(texts)),
	mapped(sft, "data.train_batch_size", "sft.train_batch_size", none),
	mapped(sft, "data.{micro_batch_size,micro_batch_size_per_gpu}", "sft.micro_batch_size", none),
	mapped(sft, "data.prompt_key", "sft.prompt_key", "question"),
	mapped(sft, "data.response_key", "sft.response_key", "answer"),
	taken(sft, "data.prompt_dict_keys", "sft.prompt_key", none, inStruct("data.prompt_key")),
	taken(sft, "data.response_dict_keys", "sft.response_key", none, inStruct("data.response_key")),
	mapped(sft, "data.{max_length,truncation}", "sft.*", none),
	dropped(sft, "data.balance_dp_token", "rows are always dealt by their tokens"),
	taken(sft, "model.partial_pretrain", "model.path", "", notNull(modelPath)),
	mapped(sft, "model.{lora_rank,lora_alpha}", "model.*", none),
	mapped(sft, "model.target_modules", "model.target_modules", `["q_proj","v_proj"]`),
	mapped(sft, "model.enable_gradient_checkpointing", "model.gradient_checkpointing", none),
	refused(sft, "model.external_lib", "Python modules cannot be imported", nil),
	dropped(sft, "model.{trust_remote_code,use_liger,strategy,fsdp_config.*}", shards),
	mapped(sft, "optim.{lr,betas,weight_decay}", "sft.optim.*", none),
	mapped(sft, "optim.{warmup_steps_ratio,lr_warmup_steps_ratio}", "sft.optim.warmup_ratio", none),
	mapped(sft, "optim.clip_grad", "sft.grad_clip", none),
	mapped(sft, "optim.lr_scheduler", "sft.optim.schedule", none),
	mapped(sft, "trainer.total_epochs", "sft.epochs", "4"),
	taken(sft, "trainer.total_training_steps", "sft.total_steps", none, totalSteps),
	mapped(sft, "trainer.validate_before_training", "trainer.val_before_train", "false"),
	mapped(sft, "trainer.project_name", "trainer.project", none),
	taken(sft, "trainer.experiment_name", "trainer.experiment", none, notNull(folder)),
	taken(sft, "trainer.logger", "log.backends", none, loggers),
	taken(sft, "trainer.default_local_dir", "trainer.output_dir", none, notNull(localDir)).noting(allRuns),
	refused(sft, "trainer.default_hdfs_dir", "copy the run folder yourself", nil),
	mapped(sft, "trainer.seed", "trainer.seed", none),
	taken(sft, "trainer.save_freq", "trainer.save_every", none, every),
	taken(sft, "trainer.test_freq", "trainer.test_every", none, every),
	dropped(sft, "trainer.{nnodes,n_gpus_per_node}", processes),
	dropped(sft, "{ulysses_sequence_parallel_size,use_remove_padding}", oneDevice),
}
