package configs

import (
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

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

func checkOptim(fs *Faults, at string, o Optim) {
	if o.WarmupRatio > 0 && o.WarmupSteps >= 0 {
		fs.add(at+"warmup_steps", "warmup_ratio is set as well: take out one of the two")
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
