package track

// What the update of a step writes.

const (
	whenUpdated = "steps with something to learn from"
	whenEntropy = "with actor.entropy_coef above 0, or actor.calculate_entropy"
	whenKLLoss  = "with actor.use_kl_loss"
)

var _ = Define(
	Definition{CriticScore + stats, "scores of the episodes that the step learns from or, without algo.filter_groups, could, before any KL penalty", ""},
	Definition{CriticRewards + stats, "sums of the token rewards of each of them", ""},
	Definition{CriticAdvantages + stats, "advantages of sampled tokens", ""},
	Definition{AdvantageHistogram + "/*", "share of sampled tokens whose advantage is in the bin: lt_-2 is below -2, -2_-1 from -2 to below -1, zero is 0 exactly, ge_2 from 2 on", ""},
	Definition{CriticReturns + stats, "returns of sampled tokens", ""},
	Definition{ActorLoss, "policy loss as aggregated, mean over the updates of the step", whenUpdated},
	Definition{ActorClipFrac, "share of sampled tokens whose ratio was clipped", whenUpdated},
	Definition{ActorClipFracLower, "share of sampled tokens cut by the dual clip; in geo_mean, clipped for negative advantages; in dppo_tv and dppo_kl, with a ratio above clip_ratio_c", whenUpdated},
	Definition{ActorPPOKL, "mean of old log-prob - log-prob over sampled tokens; in kl_cov of its absolute value", whenUpdated},
	Definition{ActorEntropyLoss, "mean entropy of the distributions that tokens were drawn from", whenEntropy},
	Definition{TurnEntropy + "/turn_*", "the same over the tokens of an episode's first reply, its second, ...; turn_10 is the tenth and all after it", whenEntropy},
	Definition{ActorKLLoss, "KL loss to the reference", whenKLLoss},
	Definition{ActorKLCoef, "its coefficient", whenKLLoss},
	Definition{ActorGradNorm, "gradient norm before clipping, mean over optimiser steps", whenUpdated},
	Definition{ActorLR, "the rate in this step", ""},
	Definition{ActorSkipped, "optimiser steps left out, since their loss or gradient was not finite", whenUpdated},
	Definition{"actor/updated_rows", "episodes that entered the update", ""},
	Definition{LogProbGap + "_{mean,max,k3}", "recorded sampling log-probs against the training pass: |difference|, and k3 KL", whenUpdated},
	Definition{StateTokens, "sampled tokens of the step", ""},
	Definition{StateCoverage, "sampled tokens / all tokens", ""},
)
