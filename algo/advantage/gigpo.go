package advantage

// Group-in-group policy optimisation: the sum of the episode's advantage in its
// group and of each turn's advantage among the group's turns that start from the
// same observation.
//
//	A^E_k = (s_i - p_k) - mean_G (s_i - mean_k p_k)
//	g_k   = r_k + γ g_{k+1} over the turns k of a row, r_k the rewards of its tokens
//	A^S_k = (g_k - p_k) - mean of the turns with the same anchor
//	A     = A^E + ω A^S,   on the tokens of the turn
//
// s_i is the sum of row i's r_k. p_k is the penalty of turn k if its action was
// invalid, else 0. The formulas are for mean_norm; mean_std_norm divides
// both advantages by the unbiased standard deviation + 1e-6. The anchor of a turn
// is the observation before it, as the environment sent it; the anchor of the
// first turn is the observation of the reset. With a similarity threshold below
// 1, a turn joins the first group whose first anchor is similar enough
// (similarity.go), as in verl-agent. A turn without another
// turn of its anchor has A^S = 0. Source: Feng et al., GiGPO, arXiv:2505.10978,
// section 4. The penalty follows verl-agent and OpenManus-RL (spec 5.9): it is
// subtracted from the row's score on that turn and from the return of this turn, at
// its last token, and does not affect other turns.
//
// Differs from verl-agent and OpenManus-RL in: rows are whole episodes, not
// turns. Every episode has weight 1 in the mean and the deviation of A^E, shared
// equally by its turns; with a row per turn, long episodes weigh more. The first
// turns of episodes recorded without their first observation share one anchor.

import (
	"fmt"
	"math"
	"slices"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// Norms of gigpo.
const (
	MeanNorm    = "mean_norm"
	MeanStdNorm = "mean_std_norm"
)

var (
	gigpoStepWeight = registry.NewParam("gigpo_step_weight", 1.0, "weight of the turns' advantage, added to the episode's", registry.AtLeast(0))
	gigpoNorm       = registry.NewParam("gigpo_norm", MeanNorm, "mean_std_norm divides both advantages by their standard deviation",
		registry.OneOf([]string{MeanNorm, MeanStdNorm}))
	gigpoSimilarity = registry.NewParam("gigpo_similarity_thresh", 1.0,
		"minimum similarity of two observations for their turns to be compared, as a share of common characters; 1: equal observations", registry.Between(0.5, 1))
)

func init() {
	Estimators.Add(registry.Entry{
		Name: "gigpo", Doc: "group-in-group: compares the episodes of a group, and its turns that answer the same observation",
		Params: []registry.Param{gamma.WithDoc("discount per turn of the rewards that follow"), gigpoStepWeight.Param, gigpoNorm.Param, gigpoSimilarity.Param},
	}, Estimator{Estimate: gigpo, InGroup: true, Needs: Needs{Turns: true}, PenaltyByTurn: true})
}

// step is one turn of a row and its discounted return.
type step struct {
	row, turn int
	g         float64
}

func gigpo(rows []data.Row, o Options) error {
	if problem := gigpoNorm.Range.Problem(gigpoNorm.In(o.Params)); problem != "" {
		return fmt.Errorf("gigpo_norm: %s", problem)
	}
	if problem := gigpoSimilarity.Range.Problem(gigpoSimilarity.In(o.Params)); problem != "" {
		return fmt.Errorf("gigpo_similarity_thresh: %s", problem)
	}
	for _, members := range Groups(rows) {
		o.episodePart(rows, members)
		for _, same := range o.anchored(rows, members) {
			if len(same) == 1 {
				continue
			}
			g := make([]float64, len(same))
			noise := 0.0
			for k, s := range same {
				g[k] = s.g
				noise = max(noise, o.rounding(&rows[s.row]))
			}
			settle(g, noise)
			for k, a := range centered(g, o.byStd()) {
				s := same[k]
				turn := rows[s.row].Turns[s.turn]
				for t := turn.Start; t < turn.End; t++ {
					rows[s.row].Advantages[t] += float32(gigpoStepWeight.In(o.Params) * a)
				}
			}
		}
	}
	return nil
}

// penalty returns the amount subtracted from the reward of turn t for an invalid
// action: 0 for a valid action or a turn without tokens.
func (o Options) penalty(t *data.Turn) float64 {
	if t.Invalid() && t.End > t.Start {
		return o.InvalidActionPenalty
	}
	return 0
}

// rounding returns a bound on the rounding error of a row's rewards and penalties.
func (o Options) rounding(r *data.Row) float64 {
	noise := rounding(r)
	for k := range r.Turns {
		noise += o.penalty(&r.Turns[k]) * roundingShare
	}
	return noise
}

// episodePart sets the advantages of a group's rows to A^E.
func (o Options) episodePart(rows []data.Row, members []int) {
	scores := settled(rows, members, func(r *data.Row) float64 { // score before penalties
		score := r.RewardSum()
		for k := range r.Turns {
			score += o.penalty(&r.Turns[k])
		}
		return score
	}, o.rounding)
	// each calls f with the score and the weight of every turn of the group.
	each := func(f func(x, share float64)) {
		for m, i := range members {
			turns := rows[i].Turns
			if len(turns) == 0 { // an episode without replies
				f(scores[m], 1)
			}
			for k := range turns {
				f(scores[m]-o.penalty(&turns[k]), 1/float64(len(turns)))
			}
		}
	}
	mean, std := 0.0, 1.0 // the values for a group of one row, as in verl
	if n := float64(len(members)); n > 1 {
		variance := 0.0
		each(func(x, share float64) { mean += x * share / n })
		each(func(x, share float64) { variance += (x - mean) * (x - mean) * share / (n - 1) })
		std = math.Sqrt(variance)
	}
	scale := 1.0
	if o.byStd() {
		scale = 1 / (std + epsilon)
	}
	for m, i := range members {
		r := &rows[i]
		setAll(r, (scores[m]-mean)*scale)
		for k := range r.Turns {
			t := &r.Turns[k]
			for at := t.Start; at < t.End; at++ {
				if r.Mask[at] == 1 {
					r.Advantages[at] = float32((scores[m] - o.penalty(t) - mean) * scale)
				}
			}
		}
	}
}

// byStd reports whether both advantages are divided by their standard deviation.
func (o Options) byStd() bool { return gigpoNorm.In(o.Params) == MeanStdNorm }

// anchored groups the turns of a group by anchor, in the order in which the
// anchors first occur.
func (o Options) anchored(rows []data.Row, members []int) [][]step {
	type anchor struct {
		unknown     bool // the reset's observation was not recorded
		observation string
	}
	at := map[anchor]int{}
	var out [][]step
	var firsts [][]rune // first observation of each group; nil if it is unknown or similarity is not used
	group := func(a anchor) int {
		n, seen := at[a]
		if seen {
			return n
		}
		var text []rune
		n = -1
		if gigpoSimilarity.In(o.Params) < 1 && !a.unknown {
			text = []rune(a.observation)
			n = slices.IndexFunc(firsts, func(first []rune) bool { return first != nil && similar(text, first, gigpoSimilarity.In(o.Params)) })
		}
		if n < 0 {
			n = len(out)
			out, firsts = append(out, nil), append(firsts, text)
		}
		at[a] = n
		return n
	}
	for _, i := range members {
		turns := rows[i].Turns
		g := o.stepReturns(&rows[i])
		for k := range turns {
			a := anchor{observation: rows[i].FirstObservation}
			a.unknown = k == 0 && a.observation == ""
			if k > 0 {
				a.observation = turns[k-1].Observation
			}
			n := group(a)
			out[n] = append(out[n], step{row: i, turn: k, g: g[k]})
		}
	}
	return out
}

// stepReturns returns, for every turn, the discounted sum of the rewards from that
// turn on, minus the penalty of this turn but not of later turns.
func (o Options) stepReturns(r *data.Row) []float64 {
	g := make([]float64, len(r.Turns))
	next := 0.0
	for k := len(g) - 1; k >= 0; k-- {
		for _, x := range r.Rewards[r.Turns[k].Start:r.Turns[k].End] {
			g[k] += float64(x)
		}
		p := o.penalty(&r.Turns[k]) // the reward of the turn's last token already contains the penalty
		g[k] += p + gamma.In(o.Params)*next
		next = g[k]
		g[k] -= p
	}
	return g
}
