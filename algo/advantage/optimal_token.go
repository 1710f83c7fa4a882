package advantage

// The optimal token baseline: at every token, the mean of the group's returns,
// weighted by how much gradient has been spent up to there.
//
//	w_t = 1 - 2 π_t + Σ_v π(v)²,   W_t = Σ_{u≤t} w_u m_u,   g_t = Σ_{u≥t} r_u m_u
//	B_t = Σ_G g_t W_t m_t / (Σ_G W_t m_t + 1e-8);   A_t = (g_t - B_t) m_t
//
// w_t is the squared norm of the gradient of log π_t with respect to the logits.
// Where the tokens carry importance weights ρ, w is multiplied by ρ². Source:
// verl's optimal_token_baseline.
//
// The tir form compares the k-th sampled tokens of the rows with one another
// rather than those at the same place, since observations shift them; beyond
// the second longest row, where one row would only be compared with itself, B
// is 0. A group of one row has B = 0.

import (
	"math"

	"github.com/openmanus/openmanus/data"
)

func init() {
	needs := Needs{SumPiSquared: true}
	Estimators.Register("optimal_token_baseline", Estimator{Estimate: optimalToken(false), InGroup: true, Needs: needs})
	Estimators.Register("tir_optimal_token_baseline", Estimator{Estimate: optimalToken(true), InGroup: true, Needs: needs})
}

// spent is one sampled token of a row: its place, the return from it on and
// the gradient spent up to it.
type spent struct {
	at      int
	g, cumW float64
}

func optimalToken(aligned bool) func([]data.Row, Options) error {
	return func(rows []data.Row, _ Options) error {
		for _, members := range Groups(rows) {
			tokens := make([][]spent, len(members))
			longest, second := 0, 0
			for k, i := range members {
				tokens[k] = spentTokens(&rows[i])
				n := len(tokens[k])
				longest, second = max(longest, n), max(second, min(longest, n))
			}
			place := func(k, j int) int { return tokens[k][j].at }
			if aligned {
				place = func(_, j int) int { return j }
			}
			above, below := map[int]float64{}, map[int]float64{}
			for k := range members {
				for j, s := range tokens[k] {
					above[place(k, j)] += s.g * s.cumW
					below[place(k, j)] += s.cumW
				}
			}
			for k, i := range members {
				r := &rows[i]
				r.Returns, r.Advantages = returns(r, 1), make([]float32, len(r.Mask))
				for j, s := range tokens[k] {
					baseline := 0.0
					if len(members) > 1 && (!aligned || j < second) {
						p := place(k, j)
						baseline = above[p] / (below[p] + 1e-8)
					}
					r.Advantages[s.at] = float32(s.g - baseline)
				}
			}
		}
		return nil
	}
}

func spentTokens(r *data.Row) []spent {
	var out []spent
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
		out = append(out, spent{at: t, g: float64(g[t]), cumW: cum})
	}
	return out
}
