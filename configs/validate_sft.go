package configs

import (
	"slices"
)

func (c *Config) checkSFT(fs *Faults) {
	s := c.SFT
	switch {
	case (s.PromptKey == "") != (s.ResponseKey == ""):
		fs.add("sft.prompt_key", "prompt_key and response_key are used together: set both, or neither for files of conversations")
	case s.PromptKey != "" && s.PromptKey == s.ResponseKey:
		fs.add("sft.response_key", "%q is the prompt's column", s.ResponseKey)
	case s.PromptKey != "" && len(s.Files) == 0:
		fs.add("sft.prompt_key", "prompt_key names a column of sft.files, which is empty: give files")
	}
	if s.DynamicBatch && s.MaxTokens < s.MaxLength {
		fs.add("sft.max_tokens_per_micro_batch", "%d is less than one trajectory may have (sft.max_length %d)", s.MaxTokens, s.MaxLength)
	}
	if c.Trainer.BestMetric == "loss" && len(s.ValFiles) == 0 {
		fs.add("trainer.best_metric", "\"loss\" is the loss on sft.val_files, which is empty: give files, or choose success_rate")
	}
	if s.Epochs == 0 {
		return
	}
	if s.MicroBatchSize > 0 && !s.DynamicBatch && s.TrainBatchSize%s.MicroBatchSize != 0 {
		fs.add("sft.micro_batch_size", "%d does not divide sft.train_batch_size %d", s.MicroBatchSize, s.TrainBatchSize)
	}
	if !c.hasTrajectories() && c.Data.FromDump == "" {
		fs.add("sft.epochs", "no trajectories to train on: give sft.files, files in [[env]] tasks, or expert_tasks; or set it to 0")
	}
	checkOptim(fs, "sft.optim.", s.Optim)
}

// hasTrajectories reports whether the configuration names a possible source of
// recorded trajectories.
func (c *Config) hasTrajectories() bool {
	found := len(c.SFT.Files) > 0
	for _, e := range c.Env {
		found = found || len(e.ExpertTasks) > 0 || slices.ContainsFunc(e.Tasks, c.Schema.IsTaskFile)
	}
	return found
}
