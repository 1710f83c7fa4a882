package configs

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
		fs.add("data.from_dump", "algo.name = \"agentevol\" plays its own episodes; use `openmanus sft` to train on a dump: set one of the two")
	}
}
