package loss

// Group policy gradient, and REINFORCE: no ratio and no clip.
//
//	ℓ = -A log π
//
// Sources: Chu et al., GPG, arXiv:2504.02546; Williams, 1992. The losses gpg and
// reinforce are equal: gpg is for the estimator gpg, reinforce is the usual name with the
// weights of a rollout correction.

import (
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

func init() {
	Policies.Add(registry.Entry{Name: "gpg", Doc: "plain policy gradient, for the estimator of the same name"}, Policy{Loss: policyGradient})
	Policies.Add(registry.Entry{Name: Reinforce, Doc: "plain policy gradient"}, Policy{Loss: policyGradient})
}

func policyGradient(_ *torch.Scope, b Batch, _ Options) (torch.Tensor, Sums) {
	l := b.Adv.Mul(b.LogP).Neg()
	return b.weigh(l), Sums{PPOKL: klSum(b.logRatio())}
}
