package track

// What a critic, the KL in the reward, rollout correction, dynamic sampling and
// greedy baselines write.

const (
	whenCritic   = "with algo.adv_estimator = \"gae\""
	whenKLReward = "with algo.use_kl_in_reward"
	whenWeighs   = "with a weight in algo.rollout_correction.rollout_is"
	whenCorrects = "with a weight, a rule or bypass_mode in algo.rollout_correction"
	whenFilters  = "with algo.filter_groups"
	whenEvolves  = "with algo.name = \"agentevol\""
)

var _ = Define(
	Definition{CriticValues + stats, "the critic's values of sampled tokens", whenCritic},
	Definition{CriticExplainedVar, "1 - Var(R - V) / (Var(R) + 1e-5) over sampled tokens, unbiased variances", whenCritic},
	Definition{CriticLoss, "value loss, mean over the updates of the step", whenCritic},
	Definition{CriticClipFrac, "share of tokens whose value loss was clipped", whenCritic},
	Definition{CriticPredMean, "mean predicted value", whenCritic},
	Definition{CriticSkipped, "optimiser steps of the critic left out, since their loss or gradient was not finite", whenCritic},
	Definition{CriticGradNorm, "the critic's gradient norm before clipping, mean over optimiser steps", whenCritic},
	Definition{CriticLR, "the critic's rate in this step", whenCritic},
	Definition{CriticKL, "KL to the reference, mean over episodes of the mean over tokens", whenKLReward},
	Definition{CriticKLCoeff, "its coefficient in this step", whenKLReward},
	Definition{RolloutCorrection + "/{kl,k3_kl,chi2_token}", "distance of the policy that is trained from the one that sampled, mean over tokens (docs/algorithms.md)", whenCorrects},
	Definition{RolloutCorrection + "/{chi2_seq,training_ppl,rollout_ppl,ppl_ratio,log_ppl_diff,log_ppl_abs_diff,log_ppl_diff_max,log_ppl_diff_min}", "perplexities of the two policies and how they differ, mean over episodes; the largest and smallest difference", whenCorrects},
	Definition{RolloutCorrection + "/rollout_is_{mean,std,max,min,eff_sample_size,ratio_fraction_high,ratio_fraction_low}", "the weights in the loss: their spread, the share of rows they are worth, and how many are beyond the cap or under its inverse (the formulas: algo/correction/weightmetrics.go)", whenWeighs},
	Definition{RolloutCorrection + "/rollout_is_seq_{mean,std,max,min,max_deviation,fraction_high,fraction_low}", "the same of the mean weight of an episode", whenWeighs},
	Definition{RolloutCorrection + "/rollout_is_batch_norm_factor", "what the weights are divided by", "with algo.rollout_correction.rollout_is_batch_normalize"},
	Definition{RolloutCorrection + "/rollout_is_oob_ratio", "share of sampled tokens whose weight is 0, since it was outside of both bounds", "with algo.rollout_correction.rollout_is_threshold_lower"},
	Definition{RolloutCorrection + "/rollout_rs_{masked_fraction,seq_masked_fraction}", "share of sampled tokens that the rules take out of the loss, and of episodes that lose some", "with a rule in algo.rollout_correction.rollout_rs"},
	Definition{GenBatches, "batches of tasks that the step played", whenFilters},
	Definition{FilteredGroups, "groups among them whose episodes do not differ", whenFilters},
	Definition{Evol + "*/kept", "episodes of the step that are imitated, by environment and of all as overall", whenEvolves},
	Definition{Evol + "*/kept_share", "the same / episodes that count", whenEvolves},
	Definition{EvolStored, "episodes kept by all steps so far", whenEvolves},
	Definition{EvolTrajectories, "trajectories that the step learned from: its own, recorded ones, those of earlier steps", whenEvolves},
	Definition{EvolLoss, "negative log-prob of a token that is imitated, mean over the passes of the step", whenEvolves},
	Definition{WithoutBaseline, "episodes left out because their greedy episode was lost to the infrastructure", "with algo.adv_estimator = \"remax\""},
)
