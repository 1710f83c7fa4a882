package loss

import (
	"fmt"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

// Options configure a loss.
type Options struct {
	Params registry.Values // the loss's parameters by key

	// The settings of bypass_mode.
	BypassLoss       string  // PPOClip or Reinforce
	BypassWeights    string  // weights of Reinforce: "", ByToken or BySequence
	BypassWeightsCap float64 // largest weight
	// BypassWeightsFloor is IcePop's lower bound: weights below it and above the
	// cap are 0. 0 means no bound.
	BypassWeightsFloor float64
}

// The parameters that several losses share.
var (
	clipLow  = registry.NewParam("clip_ratio_low", 0.2, "the ratio is clipped below 1 - clip_ratio_low", registry.AboveTo(0, 1))
	clipHigh = registry.NewParam("clip_ratio_high", 0.28, "the ratio is clipped above 1 + clip_ratio_high", registry.AboveTo(0, 100))
	clipC    = registry.NewParam("clip_ratio_c", 3.0, "dual clip: bound of the loss for negative advantages", registry.Above(1))

	clipBounds = []registry.Param{clipLow.Param, clipHigh.Param}
)

// Batch is a micro-batch of whole rows: the tokens in the loss, row after row.
type Batch struct {
	LogP    torch.Tensor // [M] log-probs under the policy, which get the gradient
	Old     torch.Tensor // [M] log-probs under the policy before the update
	Adv     torch.Tensor // [M] advantages
	Weights torch.Tensor // [M] weights of a rollout correction, or the zero Tensor
	Lens    []int        // number of tokens of each row; the sum is M
	Chosen  []bool       // result of Policy.Choose; nil if the policy has no Choose
}

// Sums holds sums over the tokens of a micro-batch, float64 tensors of one element;
// the zero Tensor is 0. They are tensors, so that the loss does not wait for a GPU.
// The metrics are these sums divided by the number of tokens of the mini-batch.
type Sums struct {
	ClipFrac      torch.Tensor // number of tokens whose ratio was clipped
	ClipFracLower torch.Tensor // number of tokens cut by the dual clip or a cap, or clipped for negative advantages
	PPOKL         torch.Tensor // sum of old minus new log-prob, unless the loss defines another KL
}

// Policy is a policy loss.
type Policy struct {
	// Loss returns the loss of every token [M].
	Loss func(s *torch.Scope, b Batch, o Options) (torch.Tensor, Sums)
	// Agg is the aggregation that the loss requires; "" for any.
	Agg string
	// Choose marks the tokens of a whole mini-batch that the loss treats
	// differently; nil if the loss treats all tokens alike.
	Choose func(tokens []Token, o Options, seed uint64) []bool
}

// Token is a token in the loss, as an argument of Choose.
type Token struct {
	LogP, Old, Adv float64
}

// Policies holds the losses by name.
var Policies = registry.New[Policy]("policy loss")

// Check returns an error if no loss has the given name, no aggregation has the name
// agg, or the loss requires another aggregation.
func Check(name, agg string) error {
	p, err := Policies.Lookup(name)
	if err != nil {
		return err
	}
	if _, err := Aggregations.Lookup(agg); err != nil {
		return err
	}
	if p.Agg != "" && agg != p.Agg {
		return fmt.Errorf("policy loss %s is defined with loss aggregation %s, not %s", name, p.Agg, agg)
	}
	return nil
}

// maxLogRatio bounds |log π - log π_old|, so that the exponential stays finite.
const maxLogRatio = 20

// logRatio returns log π - log π_old [M], clamped to ±maxLogRatio.
func (b Batch) logRatio() torch.Tensor {
	return b.LogP.Sub(b.Old).Clamp(-maxLogRatio, maxLogRatio)
}

// weigh multiplies l [M] by the weights of a rollout correction, if any.
func (b Batch) weigh(l torch.Tensor) torch.Tensor {
	if b.Weights.None() {
		return l
	}
	return l.Mul(b.Weights)
}

// clipped returns max(-Aρ, -A clip(ρ)) [M] and, for the metrics, a mask of the
// tokens where the clipped term is the larger one.
func clipped(ratio, adv torch.Tensor, o Options) (loss, cut torch.Tensor) {
	plain := adv.Mul(ratio).Neg()
	bound := adv.Mul(ratio.Clamp(1-clipLow.In(o.Params), 1+clipHigh.In(o.Params))).Neg()
	return plain.Maximum(bound), bound.Gt(plain)
}

// count returns the number of true elements.
func count(b torch.Tensor) torch.Tensor { return b.To(torch.Float64).Sum() }

// klSum returns the sum of old minus new log-probs.
func klSum(logRatio torch.Tensor) torch.Tensor {
	return logRatio.Detach().To(torch.Float64).Sum().Neg()
}
