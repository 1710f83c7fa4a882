package loss

import (
	"fmt"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

// Options configure a loss.
type Options struct {
	Params registry.Values // of the loss, by key

	// The settings of bypass_mode.
	BypassLoss       string  // PPOClip or Reinforce
	BypassWeights    string  // weights of Reinforce: "", ByToken or BySequence
	BypassWeightsCap float64 // largest weight
	// BypassWeightsFloor is IcePop's lower bound: weights below it and above the
	// cap are 0. 0 means no bound.
	BypassWeightsFloor float64
}

// The parameters that several losses have.
var (
	clipLow  = registry.NewParam("clip_ratio_low", 0.2, "the ratio is clipped below 1 - this", registry.AboveTo(0, 1))
	clipHigh = registry.NewParam("clip_ratio_high", 0.28, "the ratio is clipped above 1 + this", registry.AboveTo(0, 100))
	clipC    = registry.NewParam("clip_ratio_c", 3.0, "dual clip: bound of the loss for negative advantages", registry.Above(1))

	clipBounds = []registry.Param{clipLow.Param, clipHigh.Param}
)

// Batch is a micro-batch of whole rows: the tokens in the loss, row after row.
type Batch struct {
	LogP    torch.Tensor // [M] of the policy; the gradient goes here
	Old     torch.Tensor // [M] of the policy before the update
	Adv     torch.Tensor // [M]
	Weights torch.Tensor // [M] of a rollout correction, or none
	Lens    []int        // tokens of each row; their sum is M
	Chosen  []bool       // by Policy.Choose; nil where a policy has none
}

// Sums are over the tokens of a micro-batch; divided by the tokens of the
// mini-batch they are the metrics.
type Sums struct {
	ClipFrac      float64 // tokens whose ratio was clipped
	ClipFracLower float64 // tokens on the other side: cut by the dual clip or a cap, or clipped for negative advantages
	PPOKL         float64 // old minus new log-prob, unless the loss says otherwise
}

// Policy is a policy loss.
type Policy struct {
	// Loss is the loss of every token [M].
	Loss func(s *torch.Scope, b Batch, o Options) (torch.Tensor, Sums)
	// Agg is the one aggregation that the loss is defined with; "" for any.
	Agg string
	// Choose marks tokens of a whole mini-batch, for a loss that treats some
	// otherwise; nil where it needs none.
	Choose func(tokens []Token, o Options, seed uint64) []bool
}

// Token is what Choose is told of a token in the loss.
type Token struct {
	LogP, Old, Adv float64
}

// Policies holds the losses by name.
var Policies = registry.New[Policy]("policy loss")

// Check says whether there is a loss called name, and whether the aggregation
// called agg goes with it.
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

// maxLogRatio bounds log π - log π_old: beyond it the exponential says nothing.
const maxLogRatio = 20

// logRatio is log π - log π_old.
func (b Batch) logRatio() torch.Tensor {
	return b.LogP.Sub(b.Old).Clamp(-maxLogRatio, maxLogRatio)
}

// weigh multiplies by the weights of a rollout correction, where there are any.
func (b Batch) weigh(l torch.Tensor) torch.Tensor {
	if b.Weights.None() {
		return l
	}
	return l.Mul(b.Weights)
}

// clipped is max(-Aρ, -A clip(ρ)) and, for the metrics, where the clipped side
// was taken.
func clipped(ratio, adv torch.Tensor, o Options) (loss, cut torch.Tensor) {
	plain := adv.Mul(ratio).Neg()
	bound := adv.Mul(ratio.Clamp(1-clipLow.In(o.Params), 1+clipHigh.In(o.Params))).Neg()
	return plain.Maximum(bound), bound.Gt(plain)
}

// count is the number of true elements.
func count(b torch.Tensor) float64 { return b.To(torch.Float64).Sum().Item() }

// klSum is Σ old - new log-prob.
func klSum(logRatio torch.Tensor) float64 { return -logRatio.Detach().To(torch.Float64).Sum().Item() }
