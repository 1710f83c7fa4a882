package loss

// DRO: the policy gradient with a quadratic penalty on the log-ratio in place of
// a clip.
//
//	ℓ = -A log π + β/2 (log π - log π_old)²
//
// Source: Richemond et al., "Offline Regularised Reinforcement Learning for Large
// Language Models Alignment", arXiv:2405.19107, where β is called τ, and verl's
// dro. Here the old policy replaces the paper's reference policy, and A replaces
// the paper's difference of reward and value.

import (
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

var droBeta = registry.NewParam("dro_beta", 0.0, "weight of the squared log-ratio; required", registry.AtLeast(0))

func checkDRO(v registry.Values) (key, problem string) {
	if droBeta.In(v) == 0 {
		return droBeta.Key, "policy_loss dro is a plain policy gradient without it: set it above 0, such as 0.1"
	}
	return "", ""
}

func init() {
	Policies.Add(registry.Entry{Name: "dro", Doc: "policy gradient with a quadratic penalty on the log-ratio", Params: []registry.Param{droBeta.Param}, Check: checkDRO}, Policy{Loss: dro})
}

func dro(_ *torch.Scope, b Batch, o Options) (torch.Tensor, Sums) {
	x := b.LogP.Sub(b.Old)
	l := x.Square().MulScalar(droBeta.In(o.Params) / 2).Sub(b.Adv.Mul(b.LogP))
	return b.weigh(l), Sums{PPOKL: klSum(x)}
}
