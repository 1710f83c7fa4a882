package track

import "strings"

// The names of metrics, and prefixes of the names of several metrics. They are
// the names of verl and OpenManus-RL, so that dashboards work unchanged. Table
// documents them.
const (
	CriticScore        = "critic/score"
	CriticRewards      = "critic/rewards"
	CriticAdvantages   = "critic/advantages"
	CriticValues       = "critic/values"
	CriticExplainedVar = "critic/vf_explained_var"
	CriticKL           = "critic/kl"
	CriticKLCoeff      = "critic/kl_coeff"
	CriticLoss         = "critic/vf_loss"
	CriticClipFrac     = "critic/vf_clipfrac"
	CriticPredMean     = "critic/vpred_mean"
	CriticGradNorm     = "critic/grad_norm"
	CriticSkipped      = "critic/skipped_steps"
	CriticLR           = "critic/lr"
	CriticReturns      = "critic/returns"
	ActorEntropyLoss   = "actor/entropy_loss"
	ActorLoss          = "actor/pg_loss"
	ActorClipFrac      = "actor/pg_clipfrac"
	ActorClipFracLower = "actor/pg_clipfrac_lower"
	ActorPPOKL         = "actor/ppo_kl"
	ActorKLLoss        = "actor/kl_loss"
	ActorKLCoef        = "actor/kl_coef"
	ActorGradNorm      = "actor/grad_norm"
	ActorLR            = "actor/lr"
	ActorSkipped       = "actor/skipped_steps"
	SFTSkipped         = "train/skipped_steps"
	NumberOfActions    = "env/number_of_actions"
	StateTokens        = "state_tokens/total"
	StateCoverage      = "state_tokens/coverage"
	TimingSeconds      = "timing_s"
	TimingStep         = "timing_s/step"
	TimingTesting      = "timing_s/testing"
	TimingSave         = "timing_s/save_checkpoint"
	TimingSFT          = "timing_s/sft"
	TimingRead         = "timing_s/read"
	GlobalStep         = "training/global_step"
	Epoch              = "training/epoch"
	SFTStep            = "sft/step"
	SFTEpoch           = "sft/epoch"
	SFTLoss            = "train/loss"
	SFTGradNorm        = "train/grad_norm"
	SFTLR              = "train/lr"
	SFTTokens          = "train/tokens"
	SFTThroughput      = "perf/sft_tokens_per_s"
	ReadStep           = "read/step"
	ReadEpoch          = "read/epoch"
	ReadLoss           = "read/loss"
	ReadGradNorm       = "read/grad_norm"
	ReadLR             = "read/lr"
	ReadTokens         = "read/tokens"
	ReadSkipped        = "read/skipped_steps"
	ReadThroughput     = "perf/read_tokens_per_s"
	UpdatedRows        = "actor/updated_rows"
	DroppedRows        = "group/dropped_rows"
	SingleGroups       = "group/single"
	ZeroSpread         = "group/zero_spread_ratio"
	MixedStarts        = "group/mixed_starts"
	DifferentStarts    = "group/different_starts"
	Retries            = "rollout/retries"
	Replays            = "rollout/replays"
	Dropped            = "rollout/dropped"
	BadTasks           = "rollout/bad_tasks"
	RolloutTurns       = "rollout/turns"
	RolloutTokens      = "rollout/tokens"
	SampledTokens      = "rollout/sampled_tokens"
	Staleness          = "rollout/staleness"
	PlaySeconds        = "rollout/play_s"
	WithoutReply       = "rollout/rows_without_reply"
	ValidActionRatio   = "episode/valid_action_ratio"
	EpisodeReward      = "episode/reward"
	ResponseLength     = "response_length"
	SuccessRate        = "episode/success_rate"
	EngineSteps        = "engine/steps"
	EnginePrefill      = "engine/prefill_tokens"
	EngineShared       = "engine/shared_tokens"
	EngineDecode       = "engine/decode_tokens"
	EngineParked       = "engine/parked"
	EngineRows         = "engine/rows_per_step"
	MaxTurns           = "curriculum/max_turns"
	TasksSeen          = "curriculum/tasks_seen"
	TasksResting       = "curriculum/tasks_resting"
	DrawnSuccessRate   = "curriculum/drawn_success_rate"
	Performance        = "perf/"
	SampledThroughput  = "perf/sampled_tokens_per_s"
	TurnThroughput     = "perf/turns_per_s"
	TotalTokens        = "perf/total_num_tokens"
	TimePerStep        = "perf/time_per_step"
	Throughput         = "perf/throughput"
	TimingPerTokenMS   = "timing_per_token_ms"
	LogProbGap         = "rollout/logprob_gap"
	RolloutCorrection  = "rollout_corr"
	OverlongTasks      = "rollout/overlong_tasks"
	GenBatches         = "group/gen_batches"
	FilteredGroups     = "group/filtered"
	WithoutBaseline    = "rollout/rows_without_baseline"
	Evol               = "agentevol/"
	EvolLoss           = "agentevol/loss"
	EvolStored         = "agentevol/stored"
	EvolTrajectories   = "agentevol/trajectories"
	Validation         = "val"
	Overall            = "overall"
	Env                = "env/"
	Servers            = "servers/"
	ServerFaults       = "servers/faults"
	ValidationLoss     = "val/loss"
	ValidationTokens   = "val/tokens"
	AdvantageHistogram = "critic/advantages/hist"
	TurnEntropy        = "actor/entropy"
	MemoryBytes        = "perf/memory_bytes"
	BestValue          = "training/best_value"
	BestStep           = "training/best_step"
	ProcessBytes       = "perf/rss_bytes"
	TensorBytes        = "perf/tensor_bytes"
	DeviceBytes        = "perf/gpu_bytes"
	DevicePeakBytes    = "perf/gpu_peak_bytes"
	DeviceTime         = "perf/gpu_time_s"
	Utilization        = "perf/mfu"
)

// Timing returns the name of the metric that holds the seconds of a phase.
func Timing(phase string) string { return TimingSeconds + "/" + phase }

// Definition documents the metrics of one or several names.
type Definition struct {
	Names   string // name; {a,b} stands for each alternative, * for any text without a slash
	Meaning string
	When    string // lines that have the metric; "" means every training step
}

const stats = "/{mean,max,min}"

// Expand returns the alternatives of Definition.Names. A pattern with * matches as in path.Match.
func Expand(names string) []string {
	before, rest, ok := strings.Cut(names, "{")
	if !ok {
		return []string{names}
	}
	list, after, _ := strings.Cut(rest, "}")
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		for _, tail := range Expand(after) {
			out = append(out, before+item+tail)
		}
	}
	return out
}
