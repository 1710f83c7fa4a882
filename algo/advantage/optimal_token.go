package advantage

// The optimal token baseline: for the k-th sampled token of a row, the mean of
// the returns from the k-th sampled tokens of its group, weighted by the sum of
// the squared gradient norms up to that token.
//
//	w_t = 1 - 2 π_t + Σ_v π(v)²,   W_k = Σ_{j≤k} w_j,   g_k = Σ_{j≥k} r_j
//	B_k = Σ_G g_k W_k / (Σ_G W_k + 1e-8);   A_k = g_k - B_k
//
// w_t is the squared norm of the gradient of log π_t with respect to the logits.
// For tokens with importance weights ρ, w is multiplied by ρ². Source: verl's
// tir_optimal_token_baseline.
//
// A position is the index k of a token among the row's sampled tokens, counted
// over all contexts of an episode; observation tokens are not counted. Beyond the
// length of the group's second longest row, only the longest row has tokens. A
// baseline equal to the return would make A = 0 there, so B is 0. A group of one
// row has B = 0.
//
// Differs from verl in: optimal_token_baseline is an alias of
// tir_optimal_token_baseline; in verl both agree only for rows of one turn. verl's
// optimal_token_baseline compares tokens in the same column of the padded batch,
// where observations of different lengths misalign the sampled tokens. It also
// truncates the longest row at a column computed from a number of sampled tokens.

import (
	"math"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

func init() {
	Estimators.Add(registry.Entry{Name: "optimal_token_baseline", Doc: "return minus the optimal baseline of every token position", Aliases: []string{"tir_optimal_token_baseline"}}, Estimator{Estimate: optimalToken, InGroup: true, Needs: Needs{SumPiSquared: true}})
}

// sampledToken is one sampled token of a row: its index (at), the return from this token
// on (g), and the sum of squared gradient norms up to this token (cumW).
type sampledToken struct {
	at      int
	g, cumW float64
}

func optimalToken(rows []data.Row, _ Options) error {
	for _, members := range Groups(rows) {
		tokens := make([][]sampledToken, len(members))
		longest, second := 0, 0
		for k, i := range members {
			tokens[k] = sampledTokens(&rows[i])
			n := len(tokens[k])
			longest, second = max(longest, n), max(second, min(longest, n))
		}
		above, below := make([]float64, longest), make([]float64, longest)
		for k := range members {
			for j, s := range tokens[k] {
				above[j] += s.g * s.cumW
				below[j] += s.cumW
			}
		}
		for k, i := range members {
			r := &rows[i]
			r.Returns, r.Advantages = returns(r, 1), make([]float32, len(r.Mask))
			for j, s := range tokens[k] {
				baseline := 0.0
				if j < second {
					baseline = above[j] / (below[j] + 1e-8)
				}
				r.Advantages[s.at] = float32(s.g - baseline)
			}
		}
	}
	return nil
}

func sampledTokens(r *data.Row) []sampledToken {
	var out []sampledToken
	g := returns(r, 1)
	cum := 0.0
	for t, m := range r.Mask {
		if m != 1 {
			continue
		}
		w := 1 - 2*math.Exp(float64(r.OldLogProbs[t])) + float64(r.SumPiSquared[t])
		if r.Weights != nil {
			w *= float64(r.Weights[t]) * float64(r.Weights[t])
		}
		cum += w
		out = append(out, sampledToken{at: t, g: float64(g[t]), cumW: cum})
	}
	return out
}
