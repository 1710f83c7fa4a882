package track

// Metrics of a critic, the KL in the reward, rollout correction, dynamic
// sampling and greedy baselines.

const (
	whenCritic   = "with algo.adv_estimator = \"gae\""
	whenKLReward = "with algo.use_kl_in_reward"
	whenWeighs   = "with a weight in algo.rollout_correction.rollout_is"
	whenCorrects = "with a weight, a rule or bypass_mode in algo.rollout_correction"
	whenFilters  = "with algo.filter_groups"
	whenEvolves  = "with algo.name = \"agentevol\""
)

var _ = Define(
	Definition{CriticValues + stats, "the critic's values at sampled tokens", whenCritic},
	Definition{CriticExplainedVar, "1 - Var(R - V) / (Var(R) + 1e-5) over sampled tokens, unbiased variances", whenCritic},
	Definition{CriticLoss, "value loss, mean over the updates of the step", whenCritic},
	Definition{CriticClipFrac, "share of tokens whose value loss was clipped", whenCritic},
	Definition{CriticPredMean, "mean predicted value", whenCritic},
	Definition{CriticSkipped, "optimiser steps of the critic that were skipped because the loss or gradient was not finite", whenCritic},
	Definition{CriticGradNorm, "the critic's gradient norm before clipping, mean over optimiser steps", whenCritic},
	Definition{CriticLR, "learning rate of the critic", whenCritic},
	Definition{CriticKL, "KL to the reference, mean over episodes of the mean over tokens", whenKLReward},
	Definition{CriticKLCoeff, "coefficient of the KL penalty in the reward", whenKLReward},
	Definition{RolloutCorrection + "/{kl,k3_kl,chi2_token}", "distance between the trained policy and the sampling policy, mean over tokens (docs/algorithms.md)", whenCorrects},
	Definition{RolloutCorrection + "/{chi2_seq,training_ppl,rollout_ppl,ppl_ratio,log_ppl_diff,log_ppl_abs_diff,log_ppl_diff_max,log_ppl_diff_min}", "perplexities of the two policies and their difference, mean over episodes; the largest and smallest difference", whenCorrects},
	Definition{RolloutCorrection + "/rollout_is_{mean,std,max,min,eff_sample_size,ratio_fraction_high,ratio_fraction_low}", "distribution of the importance weights in the loss, their effective sample size, and the shares above the cap and below its inverse (formulas: algo/correction/weightmetrics.go)", whenWeighs},
	Definition{RolloutCorrection + "/rollout_is_seq_{mean,std,max,min,max_deviation,fraction_high,fraction_low}", "distribution of the mean importance weight per episode", whenWeighs},
	Definition{RolloutCorrection + "/rollout_is_batch_norm_factor", "divisor that normalises the importance weights of the batch", "with algo.rollout_correction.rollout_is_batch_normalize"},
	Definition{RolloutCorrection + "/rollout_is_oob_ratio", "share of sampled tokens whose weight is set to 0 because it lies outside the two thresholds", "with algo.rollout_correction.rollout_is_threshold_lower"},
	Definition{RolloutCorrection + "/rollout_rs_{masked_fraction,seq_masked_fraction}", "share of sampled tokens excluded from the loss by a rejection rule, and share of episodes with such tokens", "with a rule in algo.rollout_correction.rollout_rs"},
	Definition{GenBatches, "batches of tasks played in the step", whenFilters},
	Definition{FilteredGroups, "groups of these batches that were filtered because their episodes do not differ", whenFilters},
	Definition{Evol + "*/kept", "episodes of the step kept for imitation, by environment; `overall` covers all", whenEvolves},
	Definition{Evol + "*/kept_share", "share of the step's usable episodes that are kept", whenEvolves},
	Definition{EvolStored, "episodes kept by all steps so far", whenEvolves},
	Definition{EvolTrajectories, "trajectories in the step's update: its own, recorded ones, and those of earlier steps", whenEvolves},
	Definition{EvolLoss, "mean negative log-prob of the imitated tokens, mean over the passes of the step", whenEvolves},
	Definition{WithoutBaseline, "episodes excluded because the greedy episode of their task failed", "with algo.adv_estimator = \"remax\""},
)
