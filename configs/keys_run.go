package configs

import (
	"slices"

	"github.com/openmanus/openmanus/data/registry"
)

// The keys of supervised training, and of the run as a whole.

var sftKeys = slices.Concat([]entry{
	ready("sft.epochs", "passes over the recorded trajectories; 0: no warm start. Raising it continues a finished `openmanus sft`", between(0, 10000)),
	ready("sft.total_steps", "stop after this many optimiser steps; 0: after the epochs", atLeast(0)),
	ready("sft.files", "parquet or JSONL files of trajectories; empty: the files in [[env]] tasks and the solutions of expert_tasks", taskFiles),
	ready("sft.val_files", "files whose loss `openmanus sft` reports before the first step, every trainer.test_every steps and at the end", taskFiles),
	ready("sft.prompt_key", "column of the prompt in files of prompts and responses, \"struct.field\" for a struct's; empty: files hold conversations", anything),
	ready("sft.response_key", "column of the response in those files", anything),
	ready("sft.train_batch_size", "trajectories per optimiser step", atLeast(1)),
	ready("sft.micro_batch_size", "trajectories per forward and backward pass", atLeast(1)),
	ready("sft.dynamic_batch", "fill every pass up to max_tokens_per_micro_batch tokens; affects memory and speed, not the result", anything),
	ready("sft.max_tokens_per_micro_batch", "tokens per pass with dynamic_batch", atLeast(1)),
	ready("sft.max_length", "maximum tokens of a trajectory", atLeast(2)),
	ready("sft.truncation", "handling of a longer trajectory: error ends the command, drop leaves it out and counts it, left keeps its end, right its start", oneOf([]string{"error", "drop", "left", "right"})),
	ready("sft.skip_idle", "exclude from the loss the recorded replies that changed nothing (the observation after them equals the one before); they stay in the context", anything),
	ready("sft.grad_clip", "maximum global L2 norm of the gradient", above(0)),
	ready("sft.dump_success", "train only on the successful episodes of data.from_dump", anything),
	ready("sft.dump_min_reward", "with dump_success = false: train on the episodes with at least this reward", anything),
	moved("sft.total_epochs", "write sft.epochs"),
	moved("sft.clip_grad", "write sft.grad_clip"),
	moved("sft.seed", "write trainer.seed"),
	moved("sft.validate_before_training", "write trainer.val_before_train"),
	moved("sft.partial_pretrain", "write model.path"),
},
	[]entry{
		moved("sft.lora_rank", "write model.lora_rank"),
		moved("sft.lora_alpha", "write model.lora_alpha"),
		moved("sft.target_modules", "write model.target_modules"),
	},
	later("sft", "balance_dp_token"),
	optimKeys("sft.optim"))

var trainerKeys = []entry{
	ready("trainer.project", "first part of the run folder's name", notEmpty),
	ready("trainer.experiment", "folder of the run under output_dir; empty: trainer.project, the name of the model's folder and those of the [[env]] tables, with - between them", folderName),
	ready("trainer.experiment_suffix", "appended to the experiment's name after an underscore", folderName),
	ready("trainer.epochs", "passes over the tasks, used if total_steps is 0", atLeast(1)),
	ready("trainer.total_steps", "number of steps of the run; 0: computed from epochs", atLeast(0)),
	ready("trainer.critic_warmup", "initial steps that train only the critic", atLeast(0)),
	ready("trainer.save_every", "steps between checkpoints; 0: only at the end", atLeast(0)),
	ready("trainer.test_every", "steps between validations; 0: none during the run", atLeast(0)),
	ready("trainer.val_before_train", "validate before the first step", anything),
	fixed("trainer.val_only", false, "stop after the first validation; `openmanus eval` does that"),
	ready("trainer.keep_checkpoints", "newest checkpoints kept; 0: all", atLeast(0)),
	ready("trainer.keep_rollouts", "number of newest steps whose episodes are kept in the run folder's rollouts, in addition to those of every validation; 0: all; -1: write no episodes, not even those of validations", atLeast(-1)),
	ready("trainer.compress_rollouts", "compress these files with zstd to step_N.jsonl.zst, about an eighth of the size; every command that reads a dump accepts them", anything),
	ready("trainer.best_metric", "validation metric of the best checkpoint, which is kept in addition to the newest ones and linked as best in the run folder; success_rate and mean_score are over the episodes of all environments, loss is that of sft.val_files; empty: keep no best checkpoint", oneOf([]string{"success_rate", "mean_score", "loss", ""})),
	ready("trainer.resume", "auto: resume from the newest checkpoint, if any; never: start a new run in its own folder; or the path of one of the run's own checkpoints", notEmpty),
	ready("trainer.output_dir", "folder of all runs", notEmpty),
	ready("trainer.seed", "seed of all random numbers except the order of tasks (data.seed)", anything),
	moved("trainer.rollout_dump_dir", "episodes are kept in the run folder's rollouts (see trainer.keep_rollouts); leave it out"),
	moved("trainer.save_freq", "write trainer.save_every"),
	moved("trainer.test_freq", "write trainer.test_every"),
	moved("trainer.total_training_steps", "write trainer.total_steps"),
	moved("trainer.total_epochs", "write trainer.epochs"),
	moved("trainer.resume_from_path", "write trainer.resume = \"PATH\""),
	moved("trainer.logger", "write log.backends"),
}

var perfKeys = []entry{
	ready("perf.peak_tflops", "peak throughput of the device in the compute type, in 10^12 floating-point operations per second, from its data sheet or measured with a large matrix product (989 for an H100 in bfloat16); perf/mfu is the fraction of it that update and rollout reach; 0: unknown, perf/mfu is not reported", atLeast(0)),
}

func (s *Schema) logKeys() []entry {
	return slices.Concat([]entry{
		ready("log.backends", "metric sinks; jsonl is the run folder's metrics.jsonl and is always written",
			eachOf(registry.NamesOf(s.words.Sinks, nil), "tensorboard", "prometheus", "mlflow", "wandb")),
		ready("log.level", "lowest level of the log messages that are shown", oneOf([]string{"debug", "info", "warn", "error"})),
	},
		later("log", "val_generations"))
}
