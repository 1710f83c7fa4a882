package configs

import (
	"slices"

	"github.com/openmanus/openmanus/data/registry"
)

// The keys of supervised training, and of the run as a whole.

var sftKeys = slices.Concat([]entry{
	ready("sft.epochs", "passes over the recorded trajectories; 0: no warm start. A finished `openmanus sft` goes on where there are more", between(0, 10000)),
	ready("sft.total_steps", "stop after so many optimiser steps; 0: after the epochs", atLeast(0)),
	ready("sft.files", "parquet or JSONL files of trajectories; empty: the files of [[env]] tasks, and what expert_tasks gives", taskFiles),
	ready("sft.val_files", "files whose loss `openmanus sft` reports before the first step, every trainer.test_every steps and at the end", taskFiles),
	ready("sft.prompt_key", "column of the prompt in files of prompts and responses, \"struct.field\" for a struct's; empty: files hold conversations", anything),
	ready("sft.response_key", "column of the response in them", anything),
	ready("sft.train_batch_size", "trajectories per optimiser step", atLeast(1)),
	ready("sft.micro_batch_size", "trajectories per forward and backward pass", atLeast(1)),
	ready("sft.dynamic_batch", "pack as many trajectories into a pass as max_tokens_per_micro_batch holds; changes memory and speed, not the result", anything),
	ready("sft.max_tokens_per_micro_batch", "tokens per pass where dynamic_batch is on", atLeast(1)),
	ready("sft.max_length", "tokens a trajectory may have", atLeast(2)),
	ready("sft.truncation", "a longer trajectory is an error, dropped and counted, or cut: left keeps its end, right its start", oneOf([]string{"error", "drop", "left", "right"})),
	ready("sft.skip_idle", "show replies of recorded episodes that changed nothing (the observation after them is the one before), and do not learn them", anything),
	ready("sft.grad_clip", "global L2 norm of the gradient", above(0)),
	ready("sft.dump_success", "of the episodes of data.from_dump, learn from those that ended in success", anything),
	ready("sft.dump_min_reward", "where dump_success is false: learn from those with at least this reward", anything),
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
	ready("trainer.epochs", "passes over the tasks where total_steps is 0", atLeast(1)),
	ready("trainer.total_steps", "steps of the run, exactly; 0: as many as epochs gives", atLeast(0)),
	ready("trainer.critic_warmup", "steps that train the critic alone", atLeast(0)),
	ready("trainer.save_every", "steps between checkpoints; 0: only at the end", atLeast(0)),
	ready("trainer.test_every", "steps between validations; 0: none on the way", atLeast(0)),
	ready("trainer.val_before_train", "validate before the first step", anything),
	fixed("trainer.val_only", false, "stop after the first validation; `openmanus eval` does that"),
	ready("trainer.keep_checkpoints", "newest checkpoints kept; 0: all", atLeast(0)),
	ready("trainer.keep_rollouts", "newest steps whose episodes are kept in the run folder's rollouts, beside those of every validation; 0: all; -1: no episodes are written, nor those of validations", atLeast(-1)),
	ready("trainer.compress_rollouts", "compress these files with zstd: step_N.jsonl.zst, about an eighth of the size; every command that takes a dump opens them", anything),
	ready("trainer.best_metric", "validation metric by which the best checkpoint is kept beside the newest, with the link best in the run folder: over the episodes of all environments, or the loss of sft.val_files; empty: none is", oneOf([]string{"success_rate", "mean_score", "loss", ""})),
	ready("trainer.resume", "auto: go on from the newest checkpoint if there is one; never: train anew in a folder of its own; or the path of one of the run's own checkpoints", notEmpty),
	ready("trainer.output_dir", "folder of all runs", notEmpty),
	ready("trainer.seed", "seed of everything random but the order of tasks", anything),
	moved("trainer.rollout_dump_dir", "episodes are kept in the run folder's rollouts, as trainer.keep_rollouts says; leave it out"),
	moved("trainer.save_freq", "write trainer.save_every"),
	moved("trainer.test_freq", "write trainer.test_every"),
	moved("trainer.total_training_steps", "write trainer.total_steps"),
	moved("trainer.total_epochs", "write trainer.epochs"),
	moved("trainer.resume_from_path", "write trainer.resume = \"PATH\""),
	moved("trainer.logger", "write log.backends"),
}

var perfKeys = []entry{
	ready("perf.peak_tflops", "what the device can do in the compute type, in 10^12 floating-point operations a second, as its maker says or a large matrix product shows (989 for an H100 in bfloat16): perf/mfu is the share of it that the update and the rollout come to; 0: unknown, perf/mfu is not reported", atLeast(0)),
}

func (s *Schema) logKeys() []entry {
	return slices.Concat([]entry{
		ready("log.backends", "where metrics go; jsonl is the run folder's metrics.jsonl and is always written",
			eachOf(registry.NamesOf(s.words.Sinks, nil), "tensorboard", "prometheus", "mlflow", "wandb")),
		ready("log.level", "least serious message that is shown", oneOf([]string{"debug", "info", "warn", "error"})),
	},
		later("log", "val_generations"))
}
