package loss

// KL-Cov: the unclipped ratio, with a KL penalty on the tokens of highest
// covariance.
//
//	ℓ_t = -A ρ + ppo_kl_coef |x_t| for the tokens chosen, -A ρ for others
//
// The chosen tokens are kl_cov_ratio of all tokens, at least one, with the highest
// cov_t. Source: arXiv:2505.22617, section 4.2. ppo_kl is the mean of |x|, as in
// verl.

import (
	"cmp"
	"slices"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

var (
	klCovRatio = registry.NewParam("kl_cov_ratio", 0.0002, "share of the tokens with a KL penalty", registry.AboveTo(0, 1))
	ppoKLCoef  = registry.NewParam("ppo_kl_coef", 0.1, "weight of the KL penalty", registry.AtLeast(0))
)

func init() {
	Policies.Add(registry.Entry{Name: "kl_cov", Doc: "plain ratio with a KL penalty on the tokens of highest covariance", Params: []registry.Param{klCovRatio.Param, ppoKLCoef.Param}}, Policy{Loss: klCov, Choose: chooseKLCov})
}

func klCov(s *torch.Scope, b Batch, o Options) (torch.Tensor, Sums) {
	x := b.logRatio()
	distance := x.Abs()
	l := b.Adv.Mul(x.Exp()).Neg()
	charged := s.Bools(b.Chosen, len(b.Chosen)).To(l.DType())
	l = l.Add(distance.Mul(charged).MulScalar(ppoKLCoef.In(o.Params)))
	return b.weigh(l), Sums{PPOKL: klSum(distance.Neg())}
}

func chooseKLCov(tokens []Token, o Options, _ uint64) []bool {
	cov := covariances(tokens)
	order := make([]int, len(tokens))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(cov[b], cov[a]) })
	chosen := make([]bool, len(tokens))
	for _, i := range order[:min(share(klCovRatio.In(o.Params), len(tokens)), len(tokens))] {
		chosen[i] = true
	}
	return chosen
}
