package configs

// openai is the engine of an external endpoint.
const openai = "openai"

// Int8 is the value of rollout.weight_dtype that samples with int8 copies of the weights.
const Int8 = "int8"

func (c *Config) checkAPI(fs *Faults) {
	a := c.Rollout.API
	if c.Rollout.Engine != openai {
		return
	}
	const only = "engine \"openai\" needs it (for openmanus eval and rollout; an endpoint cannot be trained)"
	if a.BaseURL == "" {
		fs.add("rollout.api.base_url", "missing: %s", only)
	} else if msg := ServerURL(a.BaseURL); msg != "" {
		fs.add("rollout.api.base_url", "%q is not the address of an endpoint; write it as http://127.0.0.1:8000/v1", a.BaseURL)
	}
	if a.Model == "" {
		fs.add("rollout.api.model", "missing: %s", only)
	}
	if c.Rollout.Deterministic {
		fs.add("rollout.deterministic", "the replies of an endpoint are not reproducible: set it to false")
	}
	if c.Rollout.IgnoreEOS {
		fs.add("rollout.ignore_eos", "an endpoint determines the end of its replies: set it to false")
	}
	if c.Agent.MaxObsTokens != 0 {
		fs.add("agent.max_obs_tokens", "an endpoint does not reveal its tokenizer, so the tokens of an observation cannot be counted: set it to 0")
	}
}

func (c *Config) checkRollout(fs *Faults) {
	c.checkAPI(fs)
	r := c.Rollout
	if c.estimator().Groups && r.GroupSize == 1 && !c.Evolves() {
		fs.add("rollout.group_size", "1 is not allowed with adv_estimator %s, which compares the episodes of a group; allowed: at least 2", c.Algo.AdvEstimator)
	}
	if r.WeightDType == Int8 && c.Trainer.AsyncSteps > 0 {
		fs.add("rollout.weight_dtype", "the copies of %s are renewed after an update, and trainer.async_steps = %d samples between its steps: set one of them to its default", Int8, c.Trainer.AsyncSteps)
	}
	if r.WeightDType == Int8 && r.TensorParallel > 1 {
		fs.add("rollout.weight_dtype", "%s samples with whole models only: set rollout.tensor_parallel_size to 1", Int8)
	}
	if r.MaxNewTokens >= r.MaxContextTokens {
		fs.add("rollout.max_new_tokens", "%d leaves no room for a prompt in max_context_tokens %d", r.MaxNewTokens, r.MaxContextTokens)
	}
	if environments.met(c, 0) && c.Data.MaxPromptTokens >= r.MaxContextTokens {
		fs.add("data.max_prompt_tokens", "%d leaves no room for a reply in rollout.max_context_tokens %d", c.Data.MaxPromptTokens, r.MaxContextTokens)
	}
}
