package configs

import (
	"slices"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// faults returns all faults of c.
func (c *Config) faults() Faults {
	fs := c.valueFaults()
	// Rules across keys are skipped for keys with invalid values.
	var across Faults
	c.checkModel(&across)
	c.checkEnvs(&across)
	c.checkRollout(&across)
	c.checkReward(&across)
	c.checkUpdate(&across)
	c.checkSFT(&across)
	c.checkDump(&across)
	c.checkEvol(&across)
	c.checkServe(&across)
	c.checkAsync(&across)
	c.checkWorkers(&across)
	return fs.with(across)
}

// valueFaults returns the faults of single values, independent of other keys.
func (c *Config) valueFaults() Faults {
	var fs Faults
	for _, e := range c.Schema.table {
		if e.status != Ready {
			continue
		}
		for _, path := range c.paths(e.name) {
			if msg := e.rule.Problem(c.field(path).Interface()); msg != "" {
				fs.add(path, "%s", msg)
			}
		}
	}
	return fs
}

// paths returns the paths of a key in c: one, or one for every [[env]] table or
// component.
func (c *Config) paths(name string) []string {
	if leaf, ok := strings.CutPrefix(name, components); ok {
		out := make([]string, len(c.Reward.Components))
		for i, p := range c.Reward.Components {
			out[i] = components + p.Name + "." + leaf
		}
		return out
	}
	if instance(name, 0) == name {
		return []string{name}
	}
	out := make([]string, len(c.Env))
	for i := range out {
		out[i] = instance(name, i)
	}
	return out
}

func (c *Config) checkModel(fs *Faults) {
	c.checkLoRA(fs)
	f := c.Model.Fresh
	switch {
	case c.Rollout.Engine == openai: // the endpoint provides the model
	case c.Model.Path == "" && f.Layers == 0:
		fs.add("model.path", "no model: give a folder or a .gguf file, or set model.fresh.layers for a new model with random weights")
	case c.Model.Path != "" && f.Layers != 0:
		fs.add("model.fresh.layers", "model.path names a model: take out one of the two")
	}
	if f.Layers == 0 {
		return
	}
	if f.Heads < 1 || f.KVHeads < 1 {
		return
	}
	switch {
	case f.HiddenSize%f.Heads != 0:
		fs.add("model.fresh.heads", "%d does not divide hidden_size %d", f.Heads, f.HiddenSize)
	case f.HiddenSize/f.Heads%2 != 0:
		fs.add("model.fresh.heads", "the head size %d is odd: rotary positions need an even one", f.HiddenSize/f.Heads)
	}
	if f.Heads%f.KVHeads != 0 {
		fs.add("model.fresh.kv_heads", "%d does not divide heads %d", f.KVHeads, f.Heads)
	}
	if c.Model.TokenizerPath != "" {
		fs.add("model.tokenizer_path", "a fresh model builds a vocabulary: take it out")
	}
}

func (c *Config) checkLoRA(fs *Faults) {
	m := c.Model
	switch {
	case m.LoRARank == 0:
		return
	case m.Fresh.Layers > 0:
		fs.add("model.lora_rank", "adapters would freeze the random weights of a fresh model: set it to 0")
	}
	if len(m.TargetModules) == 0 {
		fs.add("model.target_modules", "no layer gets an adapter: name some, or give [%q]", allLinear)
	}
	if len(m.TargetModules) > 1 && slices.Contains(m.TargetModules, allLinear) {
		fs.add("model.target_modules", "%q already means every layer: take out the others", allLinear)
	}
}

// overall replaces the environment's name in metrics of the totals over all environments.
const overall = "overall"

func (c *Config) checkEnvs(fs *Faults) {
	if len(c.Env) == 0 {
		if c.Serve.Listen == "" {
			c.checkUnplayed(fs)
		}
		return
	}
	trained, val := false, false
	first, served := map[string]int{}, map[string]int{}
	for i, e := range c.Env {
		at := "env." + strconv.Itoa(i) + "."
		if before, taken := first[e.Called()]; taken {
			fs.add(at+"label", "env.%d already has the name %s: give each table a different label, or put all tasks and servers in one [[env]] table", before, e.Called())
		} else {
			first[e.Called()] = i
		}
		if e.Label == overall {
			fs.add(at+"label", "%q is the name of the totals of all tables in metrics: choose another", overall)
		} else if e.Label != e.Name && c.environment(e.Label).Name != "" {
			fs.add(at+"label", "%q is another environment: choose another label", e.Label)
		}
		for _, url := range e.Servers {
			if before, taken := served[url]; taken && before != i {
				fs.add(at+"servers", "%s is also a server of env.%d, but instances are counted per table: give the tables different servers", url, before)
			}
			served[url] = i
		}
		trained = trained || e.Weight > 0
		val = val || len(e.ValTasks) > 0
		if len(e.Tasks) == 0 && e.Weight > 0 {
			fs.add(at+"tasks", "no tasks to train on: give an index range such as \"0-199\" or files")
		}
		if !c.checkKind(fs, at, e) {
			continue
		}
		if e.Kind == KindPrompt {
			if c.Model.Fresh.Walks > 0 {
				fs.add("model.fresh.walks", "random walks exist only in maze, not in %s: set it to 0", e.Name)
			}
			continue
		}
		if len(e.Servers) == 0 && !e.Launch && !c.environmentOf(e).Builtin && c.Data.FromDump == "" {
			start := "a checkout"
			if e.Kind == KindAgentGym {
				start = "a command"
			}
			fs.add(at+"servers", "%s has no built-in server: give the addresses of running ones, or launch = true and %s", e.Name, start)
		}
		if len(e.ExpertTasks) > 0 && !c.environmentOf(e).Builtin {
			fs.add(at+"expert_tasks", "%s has no built-in solver: give trajectories in sft.files", e.Name)
		}
		if c.Model.Fresh.Walks > 0 && e.Name != "maze" {
			fs.add("model.fresh.walks", "random walks exist only in maze, not in %s: set it to 0", e.Name)
		}
		c.checkPlayed(fs, at, e)
	}
	c.checkLaunch(fs)
	if !trained && c.Serve.Listen == "" {
		fs.add("env.0.weight", "no weight is above 0, so no environment is trained on: raise one")
	}
	val = val || len(c.SFT.ValFiles) > 0
	if !val && (c.Trainer.TestEvery > 0 || c.Trainer.ValBeforeTrain) && c.Data.FromDump == "" {
		fs.add("env.0.val_tasks", "no validation tasks: give val_tasks, or set trainer.test_every = 0 and trainer.val_before_train = false")
	}
}

// checkLaunch checks the keys of servers that the program starts.
func (c *Config) checkLaunch(fs *Faults) {
	taken := map[int]int{} // the table of each port in use
	for i, e := range c.Env {
		at := "env." + strconv.Itoa(i) + "."
		if !e.Launch {
			continue
		}
		if len(e.Servers) > 0 {
			fs.add(at+"servers", "launch = true starts servers, so addresses are not used: take out one of the two")
		}
		if e.Checkout == "" && len(e.Command) == 0 {
			fs.add(at+"checkout", "launch = true needs the folder of AgentGym's checkout, or a command; an environment of your own needs a command")
		}
		if e.Python != "" && e.Venv != "" {
			fs.add(at+"venv", "python names the interpreter already: take out one of the two")
		}
		if e.NumServers > 1 && c.environmentOf(e).SharedAccount {
			fs.add(at+"num_servers", "launched servers of %s share one account and disturb each other's episodes: set it to 1", e.Name)
		}
		if e.BasePort+e.NumServers-1 > 65535 {
			fs.add(at+"base_port", "%d servers from port %d on exceed port 65535", e.NumServers, e.BasePort)
			continue
		}
		for port := e.BasePort; port < e.BasePort+e.NumServers; port++ {
			if other, ok := taken[port]; ok {
				fs.add(at+"base_port", "port %d is taken by a server of [[env]] table %d: choose another", port, other)
				break
			}
			taken[port] = i
		}
	}
}

// checkPlayed checks the keys of an [[env]] table that affect its episodes.
func (c *Config) checkPlayed(fs *Faults, at string, e Env) {
	if e.Instruction != "" && e.InstructionFile != "" {
		fs.add(at+"instruction", "instruction_file is set too: take out one of the two")
	}
	c.checkActionFormat(fs, at, e)
	c.checkFormat(fs, at, e)
}

// checkUnplayed checks a configuration without an environment, which is only
// valid for training from a dump and for supervised training on files.
func (c *Config) checkUnplayed(fs *Faults) {
	const add = "no environment: add a table [[env]] with name and tasks, or set serve.listen for agents in other programs (docs/serve.md)"
	switch {
	case c.Data.FromDump != "": // the dump names the environments of its episodes
		return
	case len(c.SFT.Files) == 0:
		fs.add("env", add)
		return
	case c.SFT.Epochs == 0:
		fs.add("env", add+", or set sft.epochs above 0 for `openmanus sft`, which works without one on sft.files")
		return
	}
	if c.Model.Fresh.Layers > 0 && c.Model.Fresh.Walks > 0 {
		fs.add("model.fresh.walks", "random walks need an [[env]] table for maze: set it to 0")
	}
	if len(c.SFT.ValFiles) == 0 && (c.Trainer.TestEvery > 0 || c.Trainer.ValBeforeTrain) {
		fs.add("sft.val_files", "no validation files: give some, or set trainer.test_every = 0 and trainer.val_before_train = false")
	}
}

func (c *Config) checkActionFormat(fs *Faults, at string, e Env) {
	switch {
	case c.Schema.format(e.ActionFormat).Calls:
		switch {
		case !slices.Contains(c.environmentOf(e).Calls, e.ActionFormat):
			fs.add(at+"action_format", "%s has no functions to call; environments with functions: %s; take it out", e.Name, c.environmentsThat(func(e registry.Environment) bool { return len(e.Calls) > 0 }))
		case e.Parser != "g2":
			fs.add(at+"action_format", "%q needs parser = \"g2\"", e.ActionFormat)
		case e.Format != "" && e.Format != e.ActionFormat:
			fs.add(at+"format", "%q does not go with action_format = %q: take it out", e.Format, e.ActionFormat)
		}
	case c.Schema.format(e.Format).Calls:
		fs.add(at+"format", "%q needs action_format = %q", e.Format, e.Format)
	}
}

// openai is the engine of an external endpoint.
const openai = "openai"

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

// checkFormat checks the options of prompt formats.
func (c *Config) checkFormat(fs *Faults, at string, e Env) {
	if e.MemoryFile != "" && c.Rollout.Deterministic {
		fs.add(at+"memory_file", "its content depends on when the run was started and resumed, which conflicts with rollout.deterministic: take out one of the two")
	}
	if c.Schema.format(e.Format).Tools && !c.environmentOf(e).Tools {
		fs.add(at+"format", "%s has no tools to call; environments with tools: %s; use react or action_tags", e.Name, c.environmentsThat(func(e registry.Environment) bool { return e.Tools }))
	}
	switch {
	case !e.UseSummary:
	case c.Agent.Summary.BaseURL == "" || c.Agent.Summary.Model == "":
		fs.add(at+"use_summary", "summaries need an endpoint: give agent.summary.base_url and agent.summary.model")
	case c.Rollout.Deterministic:
		fs.add(at+"use_summary", "the summaries of an endpoint are not reproducible, which conflicts with rollout.deterministic: take out one of the two")
	}
}

func (c *Config) checkRollout(fs *Faults) {
	c.checkAPI(fs)
	r := c.Rollout
	if c.estimator().Groups && r.GroupSize == 1 && !c.Evolves() {
		fs.add("rollout.group_size", "1 is not allowed with adv_estimator %s, which compares the episodes of a group; allowed: at least 2", c.Algo.AdvEstimator)
	}
	if r.MaxNewTokens >= r.MaxContextTokens {
		fs.add("rollout.max_new_tokens", "%d leaves no room for a prompt in max_context_tokens %d", r.MaxNewTokens, r.MaxContextTokens)
	}
	if environments.met(c, 0) && c.Data.MaxPromptTokens >= r.MaxContextTokens {
		fs.add("data.max_prompt_tokens", "%d leaves no room for a reply in rollout.max_context_tokens %d", c.Data.MaxPromptTokens, r.MaxContextTokens)
	}
}

func (c *Config) checkUpdate(fs *Faults) {
	a := c.Actor
	c.checkBatches(fs, "actor.", a.MiniBatchSize, a.MicroBatchSize)
	if a.DynamicBatch && a.MaxTokensPerMicroBatch < c.Rollout.MaxContextTokens {
		fs.add("actor.max_tokens_per_micro_batch", "%d is less than one episode may have (rollout.max_context_tokens %d)",
			a.MaxTokensPerMicroBatch, c.Rollout.MaxContextTokens)
	}
	if a.UseKLLoss && a.KLLossCoef == 0 {
		fs.add("actor.kl_loss_coef", "the KL loss has weight 0 but costs a pass of the reference over every episode: set it above 0, or actor.use_kl_loss = false")
	}
	if c.Ref.OffloadParams && c.Model.LoRARank > 0 && c.Ref.Path == "" {
		fs.add("ref.offload_params", "with model.lora_rank the reference shares the frozen weights with the policy: take it out")
	}
	checkOptim(fs, "actor.optim.", a.Optim)
	c.checkLoss(fs)
	c.checkAlgo(fs)
	c.checkCritic(fs)
}

// checkBatches checks the sizes of a section's mini-batches and micro-batches.
func (c *Config) checkBatches(fs *Faults, at string, mini, micro int) {
	rows := c.Data.TrainBatchSize * c.Rollout.GroupSize
	if mini > rows && !c.Evolves() { // AgentEvol also trains on earlier trajectories
		fs.add(at+"mini_batch_size", "%d is more than the %d episodes of a step (train_batch_size %d x group_size %d); 0 takes them all",
			mini, rows, c.Data.TrainBatchSize, c.Rollout.GroupSize)
	}
	if mini > 0 && micro > 0 && !c.Actor.DynamicBatch && mini%micro != 0 {
		fs.add(at+"micro_batch_size", "%d does not divide mini_batch_size %d", micro, mini)
	}
}

func (c *Config) checkLoss(fs *Faults) {
	a := c.Actor
	if a.UseKLLoss && a.KLLossType == "full" && (c.Rollout.TopP < 1 || c.Rollout.TopK > 0) {
		fs.add("actor.kl_loss_type", "full needs the whole vocabulary, but rollout.top_p or top_k restrict it: choose another type, or turn them off")
	}
	loss, _ := registry.Find(c.Schema.words.Losses, a.PolicyLoss)
	if loss.Check != nil {
		if key, problem := loss.Check(a.Params); problem != "" {
			fs.add("actor."+key, "%s", problem)
		}
	}
	if loss.Aggregation != "" && a.LossAgg != loss.Aggregation {
		fs.add("actor.loss_agg", "policy_loss %s requires loss_agg = %q", a.PolicyLoss, loss.Aggregation)
	}
	if a.PolicyLoss == "vespo" && c.Algo.RolloutCorrection.IS == "sequence" {
		fs.add("algo.rollout_correction.rollout_is", "policy_loss vespo multiplies the weights of a sequence's tokens: write rollout_is = \"token\"")
	}
}

func (c *Config) checkCritic(fs *Faults) {
	v := c.Critic
	if v.Shared && v.Path != "" {
		fs.add("critic.path", "a shared critic uses the actor's decoder and loads no weights: take it out, or critic.shared")
	}
	if v.Shared && v.GradientCheckpointing {
		fs.add("critic.gradient_checkpointing", "a shared critic uses the actor's decoder: write model.gradient_checkpointing = true, and take it out here")
	}
	if v.Shared && v.OffloadOptimizer {
		fs.add("critic.offload_optimizer", "the optimiser of a shared critic holds only one layer: take it out, or critic.shared")
	}
	checkOptim(fs, "critic.optim.", v.Optim)
	if c.updatesCritic() {
		c.checkBatches(fs, "critic.", v.MiniBatchSize, v.MicroBatchSize)
	}
}

func (c *Config) checkAlgo(fs *Faults) {
	if c.Algo.FilterGroups && c.Rollout.GroupSize == 1 {
		fs.add("algo.filter_groups", "the scores of a group of one episode cannot differ: set rollout.group_size to at least 2, or take it out")
	}
	if c.estimator().ByPart && c.Algo.UseKLInReward {
		fs.add("algo.use_kl_in_reward", "%s compares the parts of the reward one by one, and the KL is not a part: set actor.use_kl_loss instead", c.Algo.AdvEstimator)
	}
	r := c.Algo.RolloutCorrection
	at := "algo.rollout_correction."
	if len(r.RS) != len(r.RSThreshold) {
		fs.add(at+"rollout_rs_threshold", "%d thresholds for %d rules in rollout_rs: give one for each", len(r.RSThreshold), len(r.RS))
	}
	for i, name := range r.RS {
		if i < len(r.RSThreshold) && strings.Contains(r.RSThreshold[i], "_") && !strings.HasSuffix(name, "_k1") {
			fs.add(at+"rollout_rs_threshold", "%q has two bounds, but %s takes one: give a number", r.RSThreshold[i], name)
		}
	}
	if low := r.ISThresholdLower; low > r.ISThreshold {
		fs.add(at+"rollout_is_threshold_lower", "%v is above rollout_is_threshold %v: no weight would be left", low, r.ISThreshold)
	}
	if r.ISBatchNormalize && r.BypassMode {
		fs.add(at+"rollout_is_batch_normalize", "bypass_mode computes weights per micro-batch, so their mean would make the result depend on micro_batch_size: take it out")
	}
	if !r.BypassMode {
		return
	}
	if c.Actor.PolicyLoss != "vanilla" {
		fs.add(at+"bypass_mode", "bypass_mode has its own loss (loss_type): take out actor.policy_loss = %q", c.Actor.PolicyLoss)
	}
	if r.IS != "" && r.LossType == "ppo_clip" {
		fs.add(at+"rollout_is", "with bypass_mode and loss_type = \"ppo_clip\" the ratio is the weight: take it out")
	}
}

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

func checkOptim(fs *Faults, at string, o Optim) {
	if o.WarmupRatio > 0 && o.WarmupSteps >= 0 {
		fs.add(at+"warmup_steps", "warmup_ratio is set as well: take out one of the two")
	}
}

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

// checkEvol checks the keys of AgentEvol.
func (c *Config) checkEvol(fs *Faults) {
	if !c.Evolves() {
		return
	}
	if c.Actor.DynamicBatch && c.Actor.MaxTokensPerMicroBatch < c.SFT.MaxLength && c.hasTrajectories() {
		fs.add("actor.max_tokens_per_micro_batch", "%d is less than the longest trajectory that algo.name = \"agentevol\" trains on (sft.max_length %d)",
			c.Actor.MaxTokensPerMicroBatch, c.SFT.MaxLength)
	}
	if c.Data.FromDump != "" {
		fs.add("data.from_dump", "algo.name = \"agentevol\" plays episodes in every step; use `openmanus sft` to train on a dump: set one of the two")
	}
}
