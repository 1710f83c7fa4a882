package configs

import "slices"

// mayChange groups the keys that a resumed run may set to other values. Any other
// key defines the experiment: a new value would make the steps after the
// checkpoint inconsistent with those before it.
var mayChange = []struct {
	decides string // the effect of the keys, for docs/configuration.md
	keys    []string
}{
	{"the length of the run (linear and cosine schedules stretch with it)", []string{"trainer.total_steps", "trainer.epochs"}},
	{"the output of the run: contents, frequency and place", []string{
		"trainer.save_every", "trainer.test_every", "trainer.val_before_train", "trainer.keep_checkpoints", "trainer.keep_rollouts", "trainer.compress_rollouts",
		"trainer.best_metric", "trainer.resume",
		"trainer.project", "trainer.experiment", "trainer.experiment_suffix", "trainer.output_dir", "log.backends", "log.level", "actor.calculate_entropy", "perf.peak_tflops",
	}},
	{"the devices and servers of the run, and its speed", []string{
		"model.device", "dist.timeout_s", "dist.shard", "dist.rollout_processes", "model.gradient_checkpointing", "actor.offload_optimizer", "ref.offload_params",
		"critic.gradient_checkpointing", "critic.offload_optimizer",
		"env.servers", "env.timeout_s", "env.create_timeout_s", "env.reset_timeout_s", "env.step_timeout_s",
		"env.observe_timeout_s", "env.close_timeout_s", "env.retries", "env.max_instances", "env.max_requests", "env.quarantine_after",
		"env.wait_healthy_s", "env.hang_timeout_s", "env.launch", "env.num_servers",
		"env.base_port", "env.checkout", "env.command", "env.workdir", "env.environment", "env.python", "env.venv", "env.start_timeout_s",
		"serve.listen", "serve.model_names", "serve.override_sampling", "serve.episode_timeout_s", "serve.request_timeout_s", "serve.max_waiting", "serve.no_api_key",
		"agent.max_workers", "agent.episode_retries", "agent.episode_replays",
		"agent.summary.base_url", "agent.summary.key_env", "agent.summary.concurrency", "agent.summary.timeout_s",
		"rollout.max_sequences", "rollout.max_batch_tokens", "rollout.enable_prefix_caching", "rollout.kv_cache_fraction", "rollout.gpu_memory_utilization", "rollout.free_cache_engine", "rollout.enforce_eager", "rollout.tensor_parallel_size", "rollout.deterministic",
		"reward.score_timeout_s", "reward.score_batch_size", "reward.model_micro_batch_size", "reward.model_offload_params",
		"actor.micro_batch_size", "actor.dynamic_batch", "actor.max_tokens_per_micro_batch", "actor.share_prefix", "critic.micro_batch_size", "ref.micro_batch_size", "sft.micro_batch_size",
		"sft.dynamic_batch", "sft.max_tokens_per_micro_batch",
	}},
	{"the treatment of first prompts that are too long (by default they end the run)", []string{"data.max_prompt_tokens", "data.truncation", "data.filter_overlong"}},
	{"the warnings about log-probs", []string{"rollout.max_logprob_gap", "rollout.fail_on_logprob_gap"}},
}

// free reports whether a resumed run may change the value of a key.
func free(name string) bool {
	for _, group := range mayChange {
		if slices.Contains(group.keys, name) {
			return true
		}
	}
	return false
}
