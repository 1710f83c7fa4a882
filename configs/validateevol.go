package configs

// checkEvol refuses what AgentEvol would pass over, and its keys elsewhere.
func (c *Config) checkEvol(fs *Faults) {
	usual := Defaults()
	if !c.Evolves() {
		const elsewhere = "only algo.name = \"agentevol\" keeps episodes: set that, or take it out"
		usual := usual.Algo.AgentEvol
		if c.Algo.AgentEvol.PerTask != usual.PerTask {
			fs.add("algo.agentevol.per_task", elsewhere)
		}
		if c.Algo.AgentEvol.Replay != usual.Replay {
			fs.add("algo.agentevol.replay", elsewhere)
		}
		return
	}
	r := c.Algo.RolloutCorrection
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"algo.use_kl_in_reward", c.Algo.UseKLInReward},
		{"algo.filter_groups", c.Algo.FilterGroups},
		{"algo.pf_ppo", c.Algo.PFPPO != ""},
		{"algo.rollout_correction.rollout_is", r.IS != ""},
		{"algo.rollout_correction.rollout_rs", len(r.RS) > 0},
		{"algo.rollout_correction.bypass_mode", r.BypassMode},
		{"actor.use_kl_loss", c.Actor.UseKLLoss},
		{"actor.entropy_coef", c.Actor.EntropyCoef != 0},
		{"actor.calculate_entropy", c.Actor.CalculateEntropy},
		{"actor.policy_loss", c.Actor.PolicyLoss != usual.Actor.PolicyLoss},
	} {
		if k.set {
			fs.add(k.name, "algo.name = \"agentevol\" learns by supervised training, without advantages, KL and entropy: take it out")
		}
	}
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"reward.score_fn", c.Reward.ScoreFn != ""},
		{"reward.components", len(c.Reward.Components) > 0},
		{"reward.signal", c.Reward.Signal != usual.Reward.Signal},
		{"reward.allocation", c.Reward.Allocation != usual.Reward.Allocation},
		{"reward.turn_penalty", c.Reward.TurnPenalty != 0},
		{"reward.invalid_action_penalty", c.Reward.InvalidActionPenalty != 0},
	} {
		if k.set {
			fs.add(k.name, "algo.name = \"agentevol\" imitates the episodes that reach the environment's own threshold, whatever else they are worth: take it out")
		}
	}
	if c.Actor.DynamicBatch && c.Actor.MaxTokensPerMicroBatch < c.SFT.MaxLength && c.hasTrajectories() {
		fs.add("actor.max_tokens_per_micro_batch", "%d is less than a trajectory may have that algo.name = \"agentevol\" imitates (sft.max_length %d)",
			c.Actor.MaxTokensPerMicroBatch, c.SFT.MaxLength)
	}
	if e := c.Algo.AdvEstimator; e == "gae" || e == "remax" {
		fs.add("algo.adv_estimator", "algo.name = \"agentevol\" has no advantages, and %s would cost a %s: take it out", e,
			map[string]string{"gae": "critic", "remax": "greedy episode of every task"}[e])
	}
	if c.Data.FromDump != "" {
		fs.add("data.from_dump", "algo.name = \"agentevol\" plays its episodes; `openmanus sft` imitates those of a dump: set one of the two")
	}
}
