package configs

// The keys of agents in other programs, whose episodes a run trains on.

func (s *Schema) serveKeys() []entry {
	return append([]entry{
		ready("serve.listen", "", "HOST:PORT at which agents in other programs play the training episodes through OpenAI's API (docs/serve.md); port 0: a free one; empty: episodes are played in the [[env]] tables, which otherwise only validate", anything, policyGradient),
	}, under(agents,
		ready("serve.model_names", nil, "further names of the model in requests; \"*\" accepts every name; the name of the run folder is always accepted", anything),
		ready("serve.override_sampling", false, "replace temperature, top_p, top_k and seed of the agents' requests by the sampling of the run; false: refuse requests with other values", anything),
		ready("serve.episode_timeout_s", 600, "time without a request or a reward after which an episode is dropped; also the time after which a step ends with incomplete groups if only sessions of other tasks wait", above(0)),
		ready("serve.request_timeout_s", 600, "time limit of a request, including the wait for an update and for the next step", above(0)),
		ready("serve.max_waiting", 256, "requests that wait; further ones are refused with status 429", atLeast(0)),
		ready("serve.no_api_key", false, "let other machines use the server without the key of the environment variable OPENMANUS_API_KEY", anything),
	)...)
}

// checkServe checks training on the episodes of agents in other programs.
func (c *Config) checkServe(fs *Faults) {
	if c.Serve.Listen == "" {
		return
	}
	const others = "agents in other programs play the training episodes (serve.listen): "
	switch {
	case c.Data.FromDump != "":
		fs.add("data.from_dump", others+"take out one of the two")
	case c.Rollout.Engine == openai:
		fs.add("rollout.engine", others+"an endpoint cannot be trained; set it to \"local\"")
	}
	if c.estimator().Greedy {
		fs.add("algo.adv_estimator", others+"%s needs a greedy episode of every task; choose another estimator", c.Algo.AdvEstimator)
	}
	if c.Dist.Shard == "weights" {
		fs.add("dist.shard", others+"they may send requests while the weights are sharded; set it to \"gradients\"")
	}
	if c.Rollout.Deterministic {
		fs.add("rollout.deterministic", others+"batches depend on the arrival of their requests; set it to false")
	}
	if c.Curriculum.Sampler == "success_rate" || c.Curriculum.Failures > 0 || len(c.Curriculum.MaxTurns) > 0 {
		fs.add("curriculum.sampler", others+"they choose the tasks; take out the section")
	}
	if c.Rollout.IgnoreEOS {
		fs.add("rollout.ignore_eos", others+"their replies end at the end token; set it to false")
	}
	if c.Trainer.TotalSteps == 0 {
		fs.add("trainer.total_steps", others+"the number of tasks is unknown; set it above 0")
	}
	for i, e := range c.Env {
		if e.Weight > 0 {
			fs.add(instance("env.weight", i), others+"the environments only validate; set it to 0")
		}
	}
	if len(c.Env) == 0 {
		if c.Model.Fresh.Walks > 0 {
			fs.add("model.fresh.walks", "random walks need an [[env]] table for maze: set it to 0")
		}
		if len(c.SFT.ValFiles) == 0 && (c.Trainer.TestEvery > 0 || c.Trainer.ValBeforeTrain) {
			fs.add("trainer.test_every", "no environment and no validation files: add an [[env]] table with weight = 0 and val_tasks, or set trainer.test_every = 0 and trainer.val_before_train = false")
		}
	}
}
