package run

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/correction"
	"github.com/openmanus/openmanus/algo/curriculum"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// Seconds returns a duration of s seconds.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// agentOptions maps the options of training episodes in an environment.
func agentOptions(h *Host, cfg configs.Config, e configs.Env) (agent.Options, error) {
	o := agent.Options{
		MaxTurns:     e.MaxTurns,
		MaxNewTokens: cfg.Rollout.MaxNewTokens,
		MaxContext:   cfg.Rollout.MaxContextTokens,
		MaxPrompt:    cfg.Data.MaxPromptTokens,

		Truncation:     cfg.Data.Truncation,
		FilterOverlong: cfg.Data.FilterOverlong,

		MaxObsTokens: cfg.Agent.MaxObsTokens,
		ParseLimit:   cfg.Agent.MaxParseFailures,
		FinalEnds:    e.FinalEnds,
		Temperature:  float32(cfg.Rollout.Temperature),
		TopP:         float32(cfg.Rollout.TopP),
		TopK:         max(cfg.Rollout.TopK, 0),
		IgnoreEOS:    cfg.Rollout.IgnoreEOS,
	}
	if e.Kind == configs.KindPrompt { // loadPrompts puts the instruction into the prompts
		o.MaxTurns, o.ParseLimit, o.MaxObsTokens = 1, 0, 0
		return o, nil
	}
	var err error
	o.Instruction, err = ReadInstruction(h, e.Instruction, e.InstructionFile)
	if err == nil && e.Kind == configs.KindAgentGym {
		o.Instruction, err = ownInstruction(o.Instruction, e)
	}
	return o, err
}

// ownInstruction adds the shape of a reply to the text that describes a user's own
// environment.
func ownInstruction(text string, e configs.Env) (string, error) {
	spec, err := SpecOf(e)
	if err != nil {
		return "", err
	}
	shape := spec.Instruction(e.Format)
	if !env.Worded(e.Format) {
		f, err := agent.Formats.Lookup(e.Format)
		if err != nil {
			return "", errext.With(errext.Input, "", err)
		}
		shape = f.Prompt()
	}
	if text == "" {
		return shape, nil
	}
	return strings.TrimRight(text, "\n") + "\n\n" + shape, nil
}

// valOptions returns the options of validation episodes.
func valOptions(o agent.Options, v configs.RolloutVal) agent.Options {
	o.Temperature, o.Greedy = float32(v.Temperature), v.Temperature == 0
	o.TopP, o.TopK = 1, 0
	return o
}

// adamW maps an [*.optim] section.
func adamW(o configs.Optim) optim.AdamWOptions {
	return optim.AdamWOptions{Beta1: o.Betas[0], Beta2: o.Betas[1], Eps: o.Eps, WeightDecay: o.WeightDecay}
}

// schedule maps the learning rate of an [*.optim] section over steps.
func schedule(o configs.Optim, steps int) optim.Schedule {
	warmup := o.WarmupSteps
	if warmup < 0 {
		warmup = int(o.WarmupRatio * float64(steps))
	}
	return optim.Schedule{Shape: o.Schedule, Base: o.LR, Warmup: warmup, Steps: steps, MinRatio: o.MinLRRatio}
}

// microBatching maps the keys of micro-batches.
func microBatching(rows int, dynamic bool, maxTokens int) learner.MicroBatching {
	if dynamic {
		return learner.MicroBatching{MaxTokens: maxTokens}
	}
	return learner.MicroBatching{Rows: rows}
}

// updateMicro maps the keys of micro-batches of updates and of the passes before them.
func updateMicro(rows int, a configs.Actor) learner.MicroBatching {
	m := microBatching(rows, a.DynamicBatch, a.MaxTokensPerMicroBatch)
	m.SharePrefix = a.SharePrefix
	return m
}

// rolloutOptions maps the options that training and validation rollouts share.
func rolloutOptions(h *Host, cfg configs.Config) rollout.Options {
	return rollout.Options{
		Concurrency:   min(cfg.Agent.MaxWorkers, cfg.Rollout.MaxSequences),
		Seed:          cfg.Trainer.Seed,
		Attempts:      cfg.Agent.EpisodeRetries + 1,
		Replays:       cfg.Agent.EpisodeReplays,
		Deterministic: cfg.Rollout.Deterministic,
		Observer:      h.Observer,
		Log:           h.Log,
	}
}

// MaxFailedValidation is the share of validation episodes that may be lost to
// infrastructure failures before the result is rejected.
const MaxFailedValidation = 0.1

// usualGap returns an upper bound of the mean difference that rounding causes
// between the log-probs of sampling and of training. The measured difference of
// SmolLM2-135M-Instruct at temperature 1 is 3e-6 in float32 and 0.03 in bfloat16
// (docs/results.md), and 0.08 and 0.09 with int8 weights.
func usualGap(compute torch.DType, int8 bool) float64 {
	switch {
	case int8:
		return 0.15
	case compute == torch.BFloat16:
		return 0.05
	}
	return 1e-3
}

// trainerOptions maps the configuration to the options of the trainer. The parameter
// tasks is the number of training tasks.
func trainerOptions(h *Host, cfg configs.Config, compute torch.DType, tasks int) (algo.Options, error) {
	rules, err := rejectionRules(cfg.Algo.RolloutCorrection)
	if err != nil {
		return algo.Options{}, err
	}
	steps := totalSteps(cfg, tasks)
	train, val := rolloutOptions(h, cfg), rolloutOptions(h, cfg)
	train.GroupSize = cfg.Rollout.GroupSize
	val.GroupSize = cfg.Rollout.Val.GroupSize
	// Validation has another seed than training, and the same draws at every step.
	val.Seed = cfg.Trainer.Seed ^ 0x76616c6964617465
	val.MaxFailed = MaxFailedValidation
	critic := criticOptions(cfg, steps)
	actorSteps := steps
	if critic != nil { // warm-up steps of the critic do not train the actor
		actorSteps = max(1, steps-critic.Warmup)
	}
	var weights *correction.Weights
	if c := cfg.Algo.RolloutCorrection; c.IS != "" && !c.BypassMode { // in bypass mode the loss applies the weights
		weights = &correction.Weights{Level: c.IS, Cap: c.ISThreshold, Floor: c.ISThresholdLower, Normalize: c.ISBatchNormalize}
	}
	gap := cmp.Or(cfg.Rollout.MaxLogprobGap, usualGap(compute, cfg.Rollout.WeightDType == configs.Int8))
	return algo.Options{
		Loop: algo.Loop{
			Seed:           cfg.Trainer.Seed,
			Steps:          steps,
			SaveEvery:      cfg.Trainer.SaveEvery,
			TestEvery:      cfg.Trainer.TestEvery,
			ValBeforeTrain: cfg.Trainer.ValBeforeTrain,
			// Do not validate random weights: they solve no task and take all turns.
			ValUntrained:     cfg.Trainer.ValBeforeTrain && cfg.Model.Fresh.Layers == 0,
			Val:              val,
			Keep:             cfg.Trainer.KeepCheckpoints,
			BestMetric:       cfg.Trainer.BestMetric,
			PeakFLOPS:        1e12 * cfg.Perf.PeakTFLOPS,
			OffloadRef:       cfg.Ref.OffloadParams,
			OffloadOptimizer: cfg.Actor.OffloadOptimizer,
			OffloadCritic:    cfg.Critic.OffloadOptimizer,
		},
		Play: algo.Play{
			BatchTasks:    cfg.Data.TrainBatchSize,
			Train:         train,
			Shuffle:       cfg.Data.Shuffle,
			OrderSeed:     cfg.Data.Seed,
			Course:        courseOptions(cfg),
			FilterGroups:  cfg.Algo.FilterGroups,
			FilterMetric:  cfg.Algo.FilterMetric,
			MaxGenBatches: cfg.Algo.MaxGenBatches,
			AsyncSteps:    cfg.Trainer.AsyncSteps,
		},
		Scoring: algo.Scoring{
			Signal:      cfg.Reward.Signal,
			Allocation:  cfg.Reward.Allocation,
			TurnPenalty: cfg.Reward.TurnPenalty,
		},
		Update: algo.Update{
			Estimator:      cfg.Algo.AdvEstimator,
			EstimatorOpts:  advantage.Options{Params: cfg.Algo.Params},
			DropZeroSpread: true,
			KLReward:       klReward(cfg.Algo),
			Correction:     algo.Correction{Weights: weights, Rules: rules},
			PFPPO:          cfg.Algo.PFPPO,
			Policy:         policyOptions(cfg),
			Critic:         critic,
			RefMicro:       updateMicro(cfg.Ref.MicroBatchSize, cfg.Actor),
			AdamW:          adamW(cfg.Actor.Optim),
			Schedule:       schedule(cfg.Actor.Optim, actorSteps),
			MaxGap:         gap,
			FailOnGap:      cfg.Rollout.FailOnLogprobGap,
		},
		Method: methodOptions(cfg),
	}, nil
}

// courseOptions maps the [curriculum] section.
func courseOptions(cfg configs.Config) algo.Course {
	c := cfg.Curriculum
	o := algo.Course{Sampler: curriculum.Options{
		Seed: cfg.Data.Seed, BySuccess: c.Sampler == "success_rate", Failures: c.Failures, Rest: c.RestSteps,
	}}
	stages, _ := configs.ParseStages(c.MaxTurns) // the configuration is valid
	for _, s := range stages {
		o.Stages = append(o.Stages, curriculum.Stage{From: s.From, Turns: s.Turns})
	}
	return o
}

// totalSteps returns the number of steps: trainer.total_steps, or else the whole
// batches in trainer.epochs passes over the tasks, and at least 1.
func totalSteps(cfg configs.Config, tasks int) int {
	if cfg.Trainer.TotalSteps > 0 {
		return cfg.Trainer.TotalSteps
	}
	return max(1, tasks*cfg.Trainer.Epochs/cfg.Data.TrainBatchSize)
}

// warmSaveAfter is the time between checkpoints during a warm start.
const warmSaveAfter = time.Minute

// sftOptions maps the [sft] section. rows and val are training and validation
// data.
func sftOptions(cfg configs.Config, rows, val []data.Row) *algo.SFTOptions {
	return &algo.SFTOptions{
		Rows:      rows,
		ValRows:   val,
		Epochs:    cfg.SFT.Epochs,
		MaxSteps:  cfg.SFT.TotalSteps,
		BatchRows: cfg.SFT.TrainBatchSize,
		Micro:     microBatching(cfg.SFT.MicroBatchSize, cfg.SFT.DynamicBatch, cfg.SFT.MaxTokens),
		GradClip:  cfg.SFT.GradClip,
		Seed:      cfg.Trainer.Seed,
		AdamW:     adamW(cfg.SFT.Optim),
		Schedule:  func(steps int) optim.Schedule { return schedule(cfg.SFT.Optim, steps) },
		SaveAfter: warmSaveAfter,
	}
}

// policyOptions maps the keys of the policy update.
func policyOptions(cfg configs.Config) learner.PolicyOptions {
	a, c := cfg.Actor, cfg.Algo.RolloutCorrection
	o := learner.PolicyOptions{
		MiniBatch: a.MiniBatchSize,
		Passes:    learner.Passes{Epochs: a.PPOEpochs, Shuffle: a.Shuffle},
		Micro:     updateMicro(a.MicroBatchSize, a),
		Loss:      a.PolicyLoss,
		LossOptions: loss.Options{
			Params: a.Params, BypassLoss: c.LossType, BypassWeights: c.IS, BypassWeightsCap: c.ISThreshold, BypassWeightsFloor: c.ISThresholdLower,
		},
		Agg:         a.LossAgg,
		AggScale:    a.LossScaleFactor,
		EntropyCoef: a.EntropyCoef,
		Entropy:     a.CalculateEntropy,
		KLType:      a.KLLossType,
		Temperature: cfg.Rollout.Temperature,
		GradClip:    a.GradClip,
	}
	o.AggScale = cmp.Or(o.AggScale, float64(cfg.Rollout.MaxContextTokens))
	if c.BypassMode {
		o.Loss = loss.Bypass
	}
	if a.UseKLLoss {
		o.KLCoef = a.KLLossCoef
	}
	return o
}

// klReward maps the keys of the KL in the reward. It returns nil without a KL in the reward.
func klReward(a configs.Algo) *algo.KLReward {
	if !a.UseKLInReward {
		return nil
	}
	return &algo.KLReward{
		Type:       a.KLPenalty,
		Controller: kl.Controller{Kind: a.KLCtrl, Coef: a.KLCoef, Target: a.KLTarget, Horizon: a.KLHorizon},
	}
}

// rejectionRules pairs the rules of rollout correction with their thresholds.
func rejectionRules(c configs.RolloutCorrection) ([]correction.Rule, error) {
	var rules []correction.Rule
	for i, name := range c.RS {
		r, err := correction.ParseRule(name, c.RSThreshold[i])
		if err != nil {
			return nil, errext.With(errext.Input, "correct algo.rollout_correction.rollout_rs_threshold", fmt.Errorf("rollout correction: %w", err))
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// methodOptions maps algo.name. The caller adds the recorded trajectories of
// AgentEvol.
func methodOptions(cfg configs.Config) algo.MethodOptions {
	if cfg.Evolves() {
		return algo.Evol{PerTask: cfg.Algo.AgentEvol.PerTask, Replay: cfg.Algo.AgentEvol.Replay}
	}
	return algo.PolicyGradient{}
}

// criticOptions maps the keys of the critic. It returns nil without a critic.
func criticOptions(cfg configs.Config, steps int) *learner.CriticOptions {
	if !cfg.UsesCritic() {
		return nil
	}
	c := cfg.Critic
	return &learner.CriticOptions{
		MiniBatch: c.MiniBatchSize,
		Passes:    learner.Passes{Epochs: c.Epochs, Shuffle: c.Shuffle},
		Micro:     updateMicro(c.MicroBatchSize, cfg.Actor),
		Clip:      c.ClipRangeValue,
		Coef:      c.VFCoef,
		GradClip:  c.GradClip,
		AdamW:     adamW(c.Optim),
		Schedule:  schedule(c.Optim, steps),
		Warmup:    cfg.Trainer.CriticWarmup,
		FromActor: c.Path == "" && !c.Shared,
	}
}
