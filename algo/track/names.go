package track

import (
	"path"
	"strings"
)

// The names of metrics and, where a name stands for several, their prefix.
// They are verl's and OpenManus-RL's, so that dashboards carry over; Table says
// what each means here.
const (
	CriticScore         = "critic/score"
	CriticRewards       = "critic/rewards"
	CriticAdvantages    = "critic/advantages"
	CriticReturns       = "critic/returns"
	CriticValues        = "critic/values"
	CriticExplainedVar  = "critic/vf_explained_var"
	CriticKL            = "critic/kl"
	CriticKLCoeff       = "critic/kl_coeff"
	CriticLoss          = "critic/vf_loss"
	CriticClipFrac      = "critic/vf_clipfrac"
	CriticPredMean      = "critic/vpred_mean"
	CriticGradNorm      = "critic/grad_norm"
	CriticLR            = "critic/lr"
	ActorEntropyLoss    = "actor/entropy_loss"
	ActorLoss           = "actor/pg_loss"
	ActorClipFrac       = "actor/pg_clipfrac"
	ActorClipFracLower  = "actor/pg_clipfrac_lower"
	ActorPPOKL          = "actor/ppo_kl"
	ActorKLLoss         = "actor/kl_loss"
	ActorKLCoef         = "actor/kl_coef"
	ActorGradNorm       = "actor/grad_norm"
	ActorLR             = "actor/lr"
	ResponseLength      = "response_length"
	ResponseClipRatio   = "response_length/clip_ratio"
	PromptLength        = "prompt_length"
	PromptClipRatio     = "prompt_length/clip_ratio"
	NumberOfActions     = "env/number_of_actions"
	FinishRatio         = "env/finish_ratio"
	NumberOfValidAction = "env/number_of_valid_action"
	RatioOfValidAction  = "env/ratio_of_valid_action"
	StateTokens         = "state_tokens/total"
	StateCoverage       = "state_tokens/coverage"
	TimingSeconds       = "timing_s"
	TimingPerTokenMS    = "timing_per_token_ms"
	Outcomes            = "episode/outcome"
	LogProbGap          = "rollout/logprob_gap"
	Validation          = "val"
	BestValue           = "training/best_value"
	BestStep            = "training/best_step"
	ProcessBytes        = "perf/rss_bytes"
	TensorBytes         = "perf/tensor_bytes"
)

// Definition says what the metrics of one or several names mean.
type Definition struct {
	Names   string // a name; {a,b} stands for each of them, * for anything but a slash
	Meaning string
}

const stats = "/{mean,max,min}"

// Table defines the metrics (spec 2.7). Where the original takes a window over
// the row, ours takes the loss mask: 1 exactly on the tokens the model sampled.
// Ratios are in [0, 1]. A metric without a value in a step is absent from it.
var Table = []Definition{
	{CriticScore + stats, "episode scores, before any KL penalty"},
	{CriticRewards + stats, "sums of the token rewards of an episode"},
	{CriticAdvantages + stats, "advantages of sampled tokens"},
	{CriticReturns + stats, "returns of sampled tokens"},
	{CriticValues + stats, "the critic's values of sampled tokens"},
	{CriticExplainedVar, "1 - Var(R - V) / (Var(R) + 1e-5) over sampled tokens, unbiased variances"},
	{CriticKL, "KL to the reference, when it is part of the reward"},
	{CriticKLCoeff, "its coefficient"},
	{CriticLoss, "value loss, mean over the updates of the step"},
	{CriticClipFrac, "share of tokens whose value loss was clipped"},
	{CriticPredMean, "mean predicted value"},
	{CriticGradNorm, "the critic's gradient norm before clipping, mean over optimiser steps"},
	{CriticLR, "the critic's rate in this step"},
	{ActorLoss, "policy loss, mean over the updates of the step"},
	{ActorClipFrac, "share of sampled tokens whose ratio was clipped"},
	{ActorClipFracLower, "share of sampled tokens cut by the dual clip"},
	{ActorPPOKL, "mean of old log-prob - log-prob over sampled tokens"},
	{ActorEntropyLoss, "mean entropy of the distributions sampled from"},
	{ActorKLLoss, "KL loss to the reference"},
	{ActorKLCoef, "its coefficient"},
	{ActorGradNorm, "gradient norm before clipping, mean over optimiser steps"},
	{ActorLR, "the rate in this step"},
	{ResponseLength + stats, "sampled tokens of an episode"},
	{ResponseClipRatio, "share of replies cut by the limit on new tokens"},
	{PromptLength + stats, "tokens of an episode that were not sampled"},
	{PromptClipRatio, "share of episodes whose prompt was cut"},
	{NumberOfActions + stats, "turns of an episode"},
	{FinishRatio, "share of episodes that the environment ended"},
	{NumberOfValidAction, "mean number of turns with an action in them"},
	{RatioOfValidAction, "turns with an action in them / turns"},
	{StateTokens, "sampled tokens of the step"},
	{StateCoverage, "sampled tokens / all tokens"},
	{TimingSeconds + "/*", "wall seconds of a phase"},
	{TimingPerTokenMS + "/*", "milliseconds of a phase for each token it handled"},
	{Outcomes + "/*", "share of episodes with the outcome"},
	{LogProbGap + "_{mean,max,k3}", "recorded sampling log-probs against the training pass: |difference|, and k3 KL"},
	{ProcessBytes, "memory of the process that is in RAM when the line is written"},
	{TensorBytes, "bytes that live tensors hold: weights, optimiser, KV cache"},
	{Validation + "/*/{success_rate,mean_score,mean_turns}", "validation over all its tasks and samples, by environment"},
}

// Describe returns the meaning of a metric; ok is false for a name that Table
// does not have.
func Describe(name string) (meaning string, ok bool) {
	for _, d := range Table {
		for _, pattern := range expand(d.Names) {
			if match, _ := path.Match(pattern, name); match {
				return d.Meaning, true
			}
		}
	}
	return "", false
}

// expand writes a name with {a,b} out.
func expand(names string) []string {
	before, rest, ok := strings.Cut(names, "{")
	if !ok {
		return []string{names}
	}
	list, after, _ := strings.Cut(rest, "}")
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		out = append(out, before+item+after)
	}
	return out
}
