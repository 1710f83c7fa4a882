package report

import "github.com/openmanus/openmanus/algo/track"

// Chart describes a chart of the page.
type Chart struct {
	ID      string      `json:"id"`
	Title   string      `json:"title"`
	Help    string      `json:"help"` // how to read the curve; docs/curves.md has more
	Phase   track.Phase `json:"phase"`
	Metrics []Curve     `json:"metrics"`
	Scale   Scale       `json:"scale"`
	Unit    string      `json:"unit,omitempty"`
	// Validation is the field of rundir.Result whose value every validation adds as a point:
	// success with its interval, score, or turns. "": none.
	Validation string `json:"validation,omitempty"`
}

// Curve is a metric in a chart.
type Curve struct {
	Metric string `json:"metric"`
	Label  string `json:"label"` // distinguishes the curves of a chart
}

// Scale selects the vertical axis of a chart.
type Scale string

// The scales.
const (
	Share Scale = "share" // from 0 to 1
	Zero  Scale = "zero"  // includes 0
	Tight Scale = "tight" // covers the values
	Log   Scale = "log"   // logarithmic if the positive values span more than a decade, else Zero
)

// Units of charts. The page formats the values of these units.
const (
	unitBytes   = "bytes"
	unitSeconds = "s"
	unitPerS    = "per s"
)

// Charts lists the charts of the page in their order. The page omits charts whose metrics no run has.
var Charts = []Chart{
	{
		ID: "success", Title: "Success", Phase: track.PhaseTrain, Scale: Share, Validation: "success",
		Metrics: []Curve{{track.SuccessRate, "training episodes"}},
		Help: "Share of episodes that succeed. The curve shows the training tasks; the points are validations with their 95 % intervals. " +
			"A healthy run rises and levels off. Flat at 0: no episode succeeds, so there is nothing to learn from; ease the tasks or warm start with sft. " +
			"Training rises while validation falls: the agent memorises the training tasks.",
	},
	{
		ID: "reward", Title: "Reward", Phase: track.PhaseTrain, Scale: Tight, Validation: "score",
		Metrics: []Curve{{track.EpisodeReward + "/mean", "reward"}, {track.CriticScore + "/mean", "score after score functions"}},
		Help: "Mean reward of an episode. The score differs from the reward if score functions or penalties are configured. " +
			"Reward that rises without success usually means that a score function is exploited: read episodes.",
	},
	{
		ID: "spread", Title: "Groups without spread", Phase: track.PhaseTrain, Scale: Share,
		Metrics: []Curve{{track.ZeroSpread, ""}},
		Help: "Share of groups whose episodes all have the same reward. Such groups give no gradient. Near 1 at the start: tasks are too hard or the group is too small. " +
			"Near 1 at the end: the tasks are solved. Use algo.filter_groups, a curriculum or harder tasks.",
	},
	{
		ID: "kl", Title: "KL to the reference", Phase: track.PhaseTrain, Scale: Zero,
		Metrics: []Curve{{track.ActorKLLoss, "in the loss"}, {track.CriticKL, "in the reward"}},
		Help: "Distance of the policy from the reference model. It grows slowly in a healthy run. A jump means that the policy left the reference, " +
			"often together with garbled text: lower the learning rate or raise the KL coefficient.",
	},
	{
		ID: "gap", Title: "Sampling gap", Phase: track.PhaseTrain, Scale: Log,
		Metrics: []Curve{{track.LogProbGap + "_mean", "mean"}, {track.LogProbGap + "_max", "max"}},
		Help: "Absolute difference between the log-probs of sampling and of the training pass. It is rounding error: about 1e-7 to 1e-5 in float32, up to 0.05 in bfloat16. " +
			"A growing gap means that the update trains on other probabilities than the ones that were sampled.",
	},
	{
		ID: "entropy", Title: "Entropy", Phase: track.PhaseTrain, Scale: Zero,
		Metrics: []Curve{{track.ActorEntropyLoss, ""}},
		Help: "Mean entropy of the sampled distributions. It falls as the agent becomes certain. A fall to 0 before success rises is entropy collapse: exploration has ended. " +
			"Lower the learning rate, add actor.entropy_coef, or raise the clip range.",
	},
	{
		ID: "grad", Title: "Gradient norm", Phase: track.PhaseTrain, Scale: Log,
		Metrics: []Curve{{track.ActorGradNorm, "actor"}, {track.CriticGradNorm, "critic"}},
		Help:    "Norm before clipping. Steps without an update have no value. A norm that grows by orders of magnitude precedes divergence: lower the learning rate or actor.grad_clip.",
	},
	{
		ID: "loss", Title: "Policy loss", Phase: track.PhaseTrain, Scale: Tight,
		Metrics: []Curve{{track.ActorLoss, "policy"}, {track.EvolLoss, "imitation"}},
		Help:    "The policy loss has no target value and stays near 0. Use it to find spikes, not progress.",
	},
	{
		ID: "clip", Title: "Clipped tokens", Phase: track.PhaseTrain, Scale: Zero,
		Metrics: []Curve{{track.ActorClipFrac, "policy"}, {track.CriticClipFrac, "values"}},
		Help:    "Share of tokens whose ratio was clipped. It is 0 with one update per step. Above 0.2 the updates are too large or too many.",
	},
	{
		ID: "lr", Title: "Learning rate", Phase: track.PhaseTrain, Scale: Zero,
		Metrics: []Curve{{track.ActorLR, "actor"}, {track.CriticLR, "critic"}}, Help: "Learning rate of the optimisers.",
	},
	{
		ID: "turns", Title: "Turns of an episode", Phase: track.PhaseTrain, Scale: Zero, Validation: "turns",
		Metrics: []Curve{{track.NumberOfActions + "/mean", "training episodes"}},
		Help:    "Turns get fewer when the agent learns a direct way. At the limit on turns the episodes are cut off.",
	},
	{
		ID: "length", Title: "Sampled tokens of an episode", Phase: track.PhaseTrain, Scale: Zero,
		Metrics: []Curve{{track.ResponseLength + "/mean", "mean"}},
		Help:    "Replies that grow without success are a sign of an exploited length. Compare with the share of replies that reach the limit on new tokens.",
	},
	{
		ID: "values", Title: "Explained variance of the critic", Phase: track.PhaseTrain, Scale: Tight,
		Metrics: []Curve{{track.CriticExplainedVar, ""}},
		Help:    "1: the critic predicts the returns; 0 or less: no better than their mean. It should rise in the first steps.",
	},
	{
		ID: "throughput", Title: "Tokens per second", Phase: track.PhaseTrain, Scale: Zero, Unit: unitPerS,
		Metrics: []Curve{{track.Throughput, "whole step"}, {track.SampledThroughput, "sampling"}},
		Help:    "All tokens of the step's episodes per second of the step, and sampled tokens per second of playing.",
	},
	{
		ID: "memory", Title: "Memory", Phase: track.PhaseTrain, Scale: Zero, Unit: unitBytes,
		Metrics: []Curve{{track.ProcessBytes, "process"}, {track.TensorBytes, "tensors"}, {track.DevicePeakBytes, "GPU, peak"}},
		Help:    "Resident memory of the process and bytes of live tensors. A steady rise from step to step is a leak.",
	},
	{
		ID: "sft", Title: "Loss of the supervised training", Phase: track.PhaseTrain, Scale: Zero,
		Metrics: []Curve{{track.SFTLoss, "training"}, {track.ValidationLoss, "held-out"}},
		Help:    "Mean negative log-prob of the tokens in the loss. A held-out loss that rises again means over-fitting: train fewer epochs.",
	},
	{
		ID: "warm", Title: "Loss of the warm start", Phase: track.PhaseSFT, Scale: Zero,
		Metrics: []Curve{{track.SFTLoss, ""}},
		Help:    "Supervised training before the first step, over its own steps.",
	},
	{
		ID: "read", Title: "Loss of reading", Phase: track.PhaseRead, Scale: Zero,
		Metrics: []Curve{{track.ReadLoss, ""}},
		Help:    "Pretraining of a new model on random walks, over its own steps.",
	},
}

// TimePhases lists the phases in the chart of time, in the order of a step, with their labels.
var TimePhases = [][2]string{
	{"gen", "playing"}, {"gen_max", "greedy baselines"}, {"reward", "scoring"}, {"values", "values"}, {"old_log_prob", "old log-probs"},
	{"ref", "reference"}, {"adv", "advantages"}, {"update_critic", "critic update"}, {"update_actor", "update"},
	{"testing", "validation"}, {"save_checkpoint", "saving"}, {"sft", "supervised training"}, {"read", "reading"},
}
