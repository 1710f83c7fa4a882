package advantage

// Group-in-group policy optimisation: the episode's advantage in its group, and
// on top of it the advantage of every turn among the turns of the group that
// began from the same observation.
//
//	A^E_i = s_i - mean_G s
//	g_k   = r_k + γ g_{k+1} over the turns k of a row, r_k the rewards of its tokens
//	A^S_k = g_k - mean of the turns with the same anchor
//	A     = A^E + ω A^S,   on the tokens of the turn
//
// mean_norm is this; mean_std_norm divides both by the unbiased standard
// deviation + 1e-6. The anchor of a turn is the observation that it answers, as
// the environment sent it; the first turn's is the task. A turn without another
// of its anchor has A^S = 0. Source: Feng et al., GiGPO, arXiv:2505.10978,
// section 4.
//
// Differs from verl-agent and OpenManus-RL in: rows are whole episodes, not
// turns. Every episode counts once in A^E there; with a row for every turn, long
// episodes counted more.

import (
	"fmt"

	"github.com/openmanus/openmanus/data"
)

// Norms of gigpo.
const (
	MeanNorm    = "mean_norm"
	MeanStdNorm = "mean_std_norm"
)

func init() { Estimators.Register("gigpo", Estimator{Estimate: gigpo, Needs: Needs{Turns: true}}) }

// step is one turn of a row and its discounted return.
type step struct {
	row, turn int
	g         float64
}

func gigpo(rows []data.Row, o Options) error {
	if o.GiGPONorm != MeanNorm && o.GiGPONorm != MeanStdNorm {
		return fmt.Errorf("unknown norm %q; there are %s and %s", o.GiGPONorm, MeanNorm, MeanStdNorm)
	}
	byGroup(rows, func(scores []float64, members []int, set func(int, float64)) {
		for i, a := range o.normed(scores, members) {
			set(members[i], a)
		}
	})
	for _, members := range Groups(rows) {
		for _, same := range anchored(rows, members, o.Gamma) {
			if len(same) == 1 {
				continue
			}
			g := make([]float64, len(same))
			all := make([]int, len(same))
			for k, s := range same {
				g[k], all[k] = s.g, k
			}
			for k, a := range o.normed(g, all) {
				s := same[k]
				turn := rows[s.row].Turns[s.turn]
				for t := turn.Start; t < turn.End; t++ {
					rows[s.row].Advantages[t] += float32(o.GiGPOStepWeight * a)
				}
			}
		}
	}
	return nil
}

// normed are the scores of the members, in their order, less their mean and,
// with mean_std_norm, in units of their spread.
func (o Options) normed(scores []float64, members []int) []float64 {
	mean, std := MeanStd(scores, members)
	out := make([]float64, len(members))
	for k, i := range members {
		out[k] = scores[i] - mean
		if o.GiGPONorm == MeanStdNorm {
			out[k] /= std + epsilon
		}
	}
	return out
}

// anchored are the turns of a group by what they answer, in the order in which
// the anchors come up.
func anchored(rows []data.Row, members []int, gamma float64) [][]step {
	type anchor struct {
		first       bool
		observation string
	}
	at := map[anchor]int{}
	var out [][]step
	for _, i := range members {
		turns := rows[i].Turns
		g := stepReturns(&rows[i], gamma)
		for k := range turns {
			a := anchor{first: k == 0}
			if k > 0 {
				a.observation = turns[k-1].Observation
			}
			n, seen := at[a]
			if !seen {
				n = len(out)
				at[a] = n
				out = append(out, nil)
			}
			out[n] = append(out[n], step{row: i, turn: k, g: g[k]})
		}
	}
	return out
}

// stepReturns are the discounted sums of the turns' rewards from each turn on.
func stepReturns(r *data.Row, gamma float64) []float64 {
	g := make([]float64, len(r.Turns))
	next := 0.0
	for k := len(g) - 1; k >= 0; k-- {
		for _, x := range r.Rewards[r.Turns[k].Start:r.Turns[k].End] {
			g[k] += float64(x)
		}
		g[k] += gamma * next
		next = g[k]
	}
	return g
}
