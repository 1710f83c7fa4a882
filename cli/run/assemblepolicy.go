package run

import (
	"fmt"

	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/correction"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

// policyOptions maps the keys of the policy update.
func policyOptions(cfg configs.Config) learner.PolicyOptions {
	a, c := cfg.Actor, cfg.Algo.RolloutCorrection
	o := learner.PolicyOptions{
		MiniBatch: a.MiniBatchSize,
		Passes:    learner.Passes{Epochs: a.PPOEpochs, Shuffle: a.Shuffle},
		Micro:     microBatching(a.MicroBatchSize, a.DynamicBatch, a.MaxTokensPerMicroBatch),
		Loss:      a.PolicyLoss,
		LossOptions: loss.Options{
			ClipLow: a.ClipRatioLow, ClipHigh: a.ClipRatioHigh, ClipC: a.ClipRatioC, TauPos: a.TauPos, TauNeg: a.TauNeg,
			ClipCovRatio: a.ClipCovRatio, ClipCovLow: a.ClipCovLB, ClipCovHigh: a.ClipCovUB,
			KLCovRatio: a.KLCovRatio, PPOKLCoef: a.PPOKLCoef, DROBeta: a.DROBeta,
			VESPOPos: loss.Gamma{K: a.VESPOKPos, Lambda: a.VESPOLambdaPos}, VESPONeg: loss.Gamma{K: a.VESPOKNeg, Lambda: a.VESPOLambdaNeg},
			BypassLoss: c.LossType, BypassWeights: c.IS, BypassWeightsCap: c.ISThreshold, BypassWeightsFloor: c.ISThresholdLower,
		},
		Agg:         a.LossAgg,
		AggScale:    a.LossScaleFactor,
		EntropyCoef: a.EntropyCoef,
		Entropy:     a.CalculateEntropy,
		KLType:      kl.Canonical(a.KLLossType),
		Temperature: cfg.Rollout.Temperature,
		GradClip:    a.GradClip,
	}
	if o.AggScale == 0 {
		o.AggScale = float64(cfg.Rollout.MaxContextTokens)
	}
	if c.BypassMode {
		o.Loss = loss.Bypass
	}
	if a.UseKLLoss {
		o.KLCoef = a.KLLossCoef
	}
	return o
}

// klReward maps the keys of the KL in the reward; nil where it is off.
func klReward(a configs.Algo) *algo.KLReward {
	if !a.UseKLInReward {
		return nil
	}
	return &algo.KLReward{
		Type:       kl.Canonical(a.KLPenalty),
		Controller: kl.Controller{Kind: a.KLCtrl, Coef: a.KLCoef, Target: a.KLTarget, Horizon: a.KLHorizon},
	}
}

// rejectionRules pairs the rules of rollout correction with their thresholds.
func rejectionRules(c configs.RolloutCorrection) ([]correction.Rule, error) {
	var rules []correction.Rule
	for i, name := range c.RS {
		r, err := correction.ParseRule(name, c.RSThreshold[i])
		if err != nil {
			return nil, errext.With(errext.Input, "change algo.rollout_correction.rollout_rs_threshold", fmt.Errorf("rollout correction: %w", err))
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// evolOptions maps the keys of AgentEvol, but for the recorded trajectories; nil
// where the steps are not its.
func evolOptions(cfg configs.Config) *algo.Evol {
	if !cfg.Evolves() {
		return nil
	}
	return &algo.Evol{PerTask: cfg.Algo.AgentEvol.PerTask, Replay: cfg.Algo.AgentEvol.Replay}
}

// criticOptions maps the keys of the critic; nil where there is none.
func criticOptions(cfg configs.Config, steps int) *learner.CriticOptions {
	if !cfg.UsesCritic() {
		return nil
	}
	c := cfg.Critic
	return &learner.CriticOptions{
		MiniBatch: c.MiniBatchSize,
		Passes:    learner.Passes{Epochs: c.Epochs, Shuffle: c.Shuffle},
		Micro:     microBatching(c.MicroBatchSize, cfg.Actor.DynamicBatch, cfg.Actor.MaxTokensPerMicroBatch),
		Clip:      c.ClipRangeValue,
		Coef:      c.VFCoef,
		GradClip:  c.GradClip,
		AdamW:     adamW(c.Optim),
		Schedule:  schedule(c.Optim, steps),
		Warmup:    cfg.Trainer.CriticWarmup,
		FromActor: c.Path == "" && !c.Shared,
	}
}
