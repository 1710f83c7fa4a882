package loss

// GSPO: the ratio of the whole sequence, clipped for all of its tokens together
// and written per token so that each token has a gradient.
//
//	s_i = exp(mean_t x_t);   s_t = sg(s_i) π_t / sg(π_t)
//	ℓ_t = max(-A s_t, -A clip(s_t, 1-ε_low, 1+ε_high))
//
// with sg stopping the gradient and log s_t at most 10. Source: Zheng et al.,
// arXiv:2507.18071, section 4.3 (GSPO-token), with bounds 3e-4 and 4e-4. It
// requires the aggregation seq-mean-token-mean.

import (
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

func init() {
	Policies.Add(registry.Entry{Name: "gspo", Doc: "clips the ratio of whole sequences", Params: clipBounds}, Policy{Loss: gspo, Agg: SeqMeanTokenMean})
}

func gspo(s *torch.Scope, b Batch, o Options) (torch.Tensor, Sums) {
	x := b.LogP.Sub(b.Old)
	mean := b.rowMeans(s, x.Detach())
	logS := b.LogP.Sub(b.LogP.Detach()).Add(mean).Clamp(-1e30, 10)
	l, cut := clipped(logS.Exp(), b.Adv, o)
	return b.weigh(l), Sums{ClipFrac: count(cut), PPOKL: klSum(x)}
}
