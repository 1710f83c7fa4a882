package track

// Metrics of the update of a step.

const (
	whenUpdated = "steps with an update"
	whenEntropy = "with actor.entropy_coef above 0, or actor.calculate_entropy"
	whenKLLoss  = "with actor.use_kl_loss"
)

var _ = Define(
	Definition{CriticScore + stats, "scores of the episodes before any KL penalty; with algo.filter_groups only those of the update", ""},
	Definition{CriticRewards + stats, "sum of the token rewards of an episode", ""},
	Definition{CriticAdvantages + stats, "advantages at sampled tokens", ""},
	Definition{AdvantageHistogram + "/*", "share of sampled tokens whose advantage is in the bin: lt_-2 is below -2, -2_-1 from -2 to below -1, zero exactly 0, ge_2 at least 2", ""},
	Definition{CriticReturns + stats, "returns at sampled tokens", ""},
	Definition{ActorLoss, "aggregated policy loss, mean over the updates of the step", whenUpdated},
	Definition{ActorClipFrac, "share of sampled tokens whose probability ratio was clipped", whenUpdated},
	Definition{ActorClipFracLower, "share of sampled tokens cut by the dual clip; in geo_mean, clipped for negative advantages; in dppo_tv and dppo_kl, with a ratio above clip_ratio_c", whenUpdated},
	Definition{ActorPPOKL, "mean of old log-prob minus log-prob over sampled tokens; in kl_cov of the absolute value", whenUpdated},
	Definition{ActorEntropyLoss, "mean entropy of the distributions that the tokens were sampled from", whenEntropy},
	Definition{TurnEntropy + "/turn_*", "mean entropy over the tokens of an episode's first reply, second reply, and so on; turn_10 covers the tenth and all later replies", whenEntropy},
	Definition{ActorKLLoss, "KL loss to the reference", whenKLLoss},
	Definition{ActorKLCoef, "coefficient of the KL loss", whenKLLoss},
	Definition{ActorGradNorm, "gradient norm before clipping, mean over optimiser steps", whenUpdated},
	Definition{ActorLR, "learning rate of the actor", ""},
	Definition{ActorSkipped, "optimiser steps that were skipped because the loss or gradient was not finite", whenUpdated},
	Definition{"actor/updated_rows", "episodes that entered the update", ""},
	Definition{LogProbGap + "_{mean,max,k3}", "difference between the log-probs recorded while sampling and those of the training pass: absolute difference (mean, max) and k3 estimate of the KL", whenUpdated},
	Definition{StateTokens, "sampled tokens of the step", ""},
	Definition{StateCoverage, "share of sampled tokens among all tokens", ""},
)
