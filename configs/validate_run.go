package configs

// checkDump checks training from a dump, which plays no episodes.
func (c *Config) checkDump(fs *Faults) {
	switch d := c.Data; {
	case d.FromDump != "" && len(c.SFT.ValFiles) > 0:
		fs.add("sft.val_files", "training from data.from_dump does not validate: take out one of the two")
	case d.FromDump != "" && c.Algo.FilterGroups:
		fs.add("algo.filter_groups", "dynamic sampling plays more episodes, and training from data.from_dump plays none: set it to false")
	case d.FromDump != "" && c.estimator().Greedy:
		fs.add("algo.adv_estimator", "%s plays a greedy episode of every task, and training from data.from_dump plays none: choose another estimator", c.Algo.AdvEstimator)
	case d.FromDump != "" && c.Model.Path == "":
		fs.add("data.from_dump", "training from a dump needs an existing model: set model.path to the model that played the episodes, and model.fresh.layers = 0")
	}
}

// checkAsync checks the keys that conflict with trainer.async_steps.
func (c *Config) checkAsync(fs *Faults) {
	const key = "trainer.async_steps"
	switch {
	case c.Trainer.AsyncSteps == 0:
	case c.Rollout.Deterministic:
		fs.add(key, "the progress of an update decides which weights sample a reply, which conflicts with rollout.deterministic: set one of the two to 0 or false")
	case c.Dist.Shard == "weights" && c.Dist.RolloutProcesses == 0:
		fs.add(key, "with dist.shard = \"weights\" the processes cannot play while they train, since every process has only a part of the weights: set dist.rollout_processes, or another dist.shard")
	case c.Dist.Shard == "weights" && c.Reward.ModelPath != "":
		fs.add(key, "with dist.shard = \"weights\" all processes run the reward model together, so it cannot score during an update: set it to 0, or another dist.shard")
	case c.Data.FromDump != "":
		fs.add(key, "training from data.from_dump plays no episodes: set it to 0")
	case c.Serve.Listen != "":
		fs.add(key, "the agents of serve.listen start their episodes independently of the steps: set it to 0")
	case c.Curriculum.Sampler == "success_rate" || c.Curriculum.Failures > 0:
		fs.add(key, "the curriculum chooses the tasks of a step by the results of the step before it, which are not known when the episodes begin: set it to 0, or remove curriculum.sampler and curriculum.failures")
	}
}

// checkWorkers checks the keys that conflict with dist.rollout_processes.
func (c *Config) checkWorkers(fs *Faults) {
	if c.Dist.RolloutProcesses > 0 && c.Data.FromDump != "" {
		fs.add("dist.rollout_processes", "training from data.from_dump plays no episodes: set it to 0")
	}
}
