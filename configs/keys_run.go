package configs

import (
	"slices"

	"github.com/openmanus/openmanus/data/registry"
)

// The keys of supervised training, and of the run as a whole.

func (s *Schema) sftKeys() []entry {
	imitates := either("sft.epochs above 0 or algo.name = \"agentevol\"", func(c *Config) bool { return c.SFT.Epochs > 0 || c.Evolves() })
	imitationOrWalks := either("sft.epochs above 0 or model.fresh.walks above 0", func(c *Config) bool { return c.SFT.Epochs > 0 || walks.met(c, 0) })
	return slices.Concat([]entry{
		ready("sft.epochs", 0, "passes over the recorded trajectories; 0: no warm start. Raising it continues a finished `openmanus sft`", between(0, 10000)),
		ready("sft.total_steps", 0, "stop after this many optimiser steps; 0: after the epochs", atLeast(0), imitation),
		ready("sft.files", nil, "parquet or JSONL files of trajectories; empty: the files in [[env]] tasks and the solutions of expert_tasks", s.trajectories(), withTrajectories),
		ready("sft.val_files", nil, "files whose loss `openmanus sft` reports before the first step, every trainer.test_every steps and at the end", s.trajectories(), imitation),
		ready("sft.prompt_key", "", "column of the prompt in files of prompts and responses, \"struct.field\" for a struct's; empty: files hold conversations", anything, withTrajectories),
		ready("sft.response_key", "", "column of the response in files of prompts and responses", anything, withTrajectories),
		ready("sft.train_batch_size", 256, "trajectories per optimiser step", atLeast(1), imitation),
		ready("sft.micro_batch_size", 16, "maximum number of trajectories per forward and backward pass; on a CPU a pass of rows without a common prefix has one row or at most 1024 tokens (docs/memory.md#passes-on-a-cpu)", atLeast(1), imitation, off("sft.dynamic_batch")),
		ready("sft.dynamic_batch", false, "fill every pass up to max_tokens_per_micro_batch tokens; affects memory and speed, not the result", anything, imitation),
		ready("sft.max_tokens_per_micro_batch", 16384, "tokens per pass with dynamic_batch", atLeast(1), imitation, on("sft.dynamic_batch")),
		ready("sft.max_length", 1024, "maximum tokens of a trajectory", atLeast(2), imitates),
		ready("sft.truncation", "error", "handling of a trajectory longer than max_length: error ends the command, drop leaves it out and counts it, left keeps its end, right its start", oneOf([]string{"error", "drop", "left", "right"}), imitates),
		ready("sft.skip_idle", false, "exclude from the loss the recorded replies without effect (the observations before and after them are equal); they stay in the context", anything, withTrajectories),
		ready("sft.grad_clip", 1, "maximum global L2 norm of the gradient", above(0), imitation),
		ready("sft.dump_success", true, "train only on the successful episodes of data.from_dump", anything, imitation, fromDump),
		ready("sft.dump_min_reward", 0, "with dump_success = false: train on the episodes with at least this reward", anything, imitation, fromDump, off("sft.dump_success")),
		moved("sft.total_epochs", "write sft.epochs"),
		moved("sft.clip_grad", "write sft.grad_clip"),
		moved("sft.seed", "write trainer.seed"),
		moved("sft.validate_before_training", "write trainer.val_before_train"),
		moved("sft.partial_pretrain", "write model.path"),
		moved("sft.lora_rank", "write model.lora_rank"),
		moved("sft.lora_alpha", "write model.lora_alpha"),
		moved("sft.target_modules", "write model.target_modules"),
		later("sft.balance_dp_token"),
	}, optimKeys("sft.optim", Optim{LR: 1e-5, Betas: [2]float64{0.9, 0.95}, Schedule: "cosine", WarmupRatio: 0.1}, imitation, imitationOrWalks))
}

func (s *Schema) trainerKeys() []entry {
	keepsRollouts := either("trainer.keep_rollouts at least 0", func(c *Config) bool { return c.Trainer.KeepRollouts >= 0 })
	return []entry{
		ready("trainer.project", "openmanus", "first part of the run folder's name if trainer.experiment is empty; project of W&B and experiment of MLflow", notEmpty, grouped),
		ready("trainer.experiment", "", "folder of the run under output_dir; empty: trainer.project, the name of the model's folder and the names of the [[env]] tables, joined by -", folderName),
		ready("trainer.experiment_suffix", "", "appended to the experiment's name after an underscore", folderName),
		ready("trainer.epochs", 15, "passes over the tasks, used if total_steps is 0", atLeast(1), zero("trainer.total_steps")),
		ready("trainer.total_steps", 305, "number of steps of the run; 0: computed from epochs", atLeast(0)),
		ready("trainer.critic_warmup", 0, "initial steps that train only the critic", atLeast(0), s.critic()),
		ready("trainer.async_steps", 0, "number of later steps whose episodes may be played while the update of a step runs, so that waits for environments overlap with training; episodes are then up to this many versions of the weights old, their recorded log-probs are the old log-probs of the update (or see algo.rollout_correction), and runs are not reproducible; 0: episodes and updates take turns", between(0, 64)),
		ready("trainer.save_every", 100, "steps between checkpoints; 0: only at the end", atLeast(0)),
		ready("trainer.test_every", 50, "steps between validations; 0: none during the run", atLeast(0)),
		ready("trainer.val_before_train", true, "validate before the first step", anything),
		fixed("trainer.val_only", false, "stop after the first validation; `openmanus eval` does that"),
		ready("trainer.keep_checkpoints", 3, "newest checkpoints kept; 0: all", atLeast(0)),
		ready("trainer.keep_rollouts", 0, "number of newest steps whose episodes are kept in the run folder's rollouts, in addition to the episodes of every validation; 0: all; -1: write no episodes, not even of validations", atLeast(-1)),
		ready("trainer.compress_rollouts", false, "compress the files in rollouts with zstd to step_N.jsonl.zst, about an eighth of the size; every command that reads a dump accepts them", anything, keepsRollouts),
		ready("trainer.best_metric", "success_rate", "validation metric of the best checkpoint, which is kept in addition to the newest ones and linked as best in the run folder; success_rate and mean_score are over the episodes of all environments, loss is the loss on sft.val_files; empty: keep no best checkpoint", oneOf([]string{"success_rate", "mean_score", "loss", ""})),
		ready("trainer.resume", "auto", "auto: resume from the newest checkpoint, if any; never: start a new run in its own folder; or the path of a checkpoint of this run", notEmpty),
		ready("trainer.output_dir", "runs", "folder of all runs", notEmpty),
		ready("trainer.seed", 1, "seed of all random numbers except the order of tasks (data.seed)", anything),
		moved("trainer.rollout_dump_dir", "episodes are kept in the run folder's rollouts (see trainer.keep_rollouts); leave it out"),
		moved("trainer.save_freq", "write trainer.save_every"),
		moved("trainer.test_freq", "write trainer.test_every"),
		moved("trainer.total_training_steps", "write trainer.total_steps"),
		moved("trainer.total_epochs", "write trainer.epochs"),
		moved("trainer.resume_from_path", "write trainer.resume = \"PATH\""),
		moved("trainer.logger", "write log.backends"),
	}
}

var distKeys = []entry{
	ready("dist.rollout_processes", 0, "number of processes, the last ones of the run, that only play (docs/distributed.md); the others only train, and rank 0 sends the weights after every update; with trainer.async_steps both work at the same time; 0: every process plays and trains", between(0, 4096), drawsTasks),
	ready("dist.timeout_s", 1800, "with several processes (docs/distributed.md): time after which a process that does not answer ends the run; it must exceed the longest time that the others wait for one of them, such as the writing of a checkpoint by rank 0 or the difference between the shortest and the longest play of a step", above(0)),
	ready("dist.shard", "none", "with several processes, the tensors of actor, critic, reference and reward model that are sharded over the processes: none; optimizer: moments and float32 masters (ZeRO 1); gradients: gradients too (ZeRO 2); weights: weights too, which are gathered layer by layer in a pass, and whole for rollouts (ZeRO 3)", oneOf([]string{"none", "optimizer", "gradients", "weights"})),
}

var perfKeys = []entry{
	ready("perf.peak_tflops", 0, "peak throughput of the device in the compute type, in 10^12 floating-point operations per second, from its data sheet or measured with a large matrix product (989 for an H100 in bfloat16); perf/mfu is the fraction of it that update and rollout reach; 0: unknown, perf/mfu is not reported", atLeast(0)),
}

func (s *Schema) logKeys() []entry {
	return []entry{
		ready("log.backends", []string{"console", "jsonl"}, "outputs of metrics (docs/tracking.md); jsonl is the run folder's metrics.jsonl and is always written",
			eachOf(registry.NamesOf(s.words.Sinks, nil), "prometheus")),
		ready("log.level", "info", "lowest level of the log messages that are shown", oneOf([]string{"debug", "info", "warn", "error"})),
		later("log.val_generations"),
	}
}
