package configs

// checkEvol holds the rules of AgentEvol.
func (c *Config) checkEvol(fs *Faults) {
	if !c.Evolves() {
		return
	}
	if c.Actor.DynamicBatch && c.Actor.MaxTokensPerMicroBatch < c.SFT.MaxLength && c.hasTrajectories() {
		fs.add("actor.max_tokens_per_micro_batch", "%d is less than a trajectory may have that algo.name = \"agentevol\" imitates (sft.max_length %d)",
			c.Actor.MaxTokensPerMicroBatch, c.SFT.MaxLength)
	}
	if c.Data.FromDump != "" {
		fs.add("data.from_dump", "algo.name = \"agentevol\" plays its episodes; `openmanus sft` imitates those of a dump: set one of the two")
	}
}
