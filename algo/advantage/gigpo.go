package advantage

// Group-in-group policy optimisation: the episode's advantage in its group, and
// on top of it the advantage of every turn among the turns of the group that
// began from the same observation.
//
//	A^E_k = (s_i - p_k) - mean_G (s_i - mean_k p_k)
//	g_k   = r_k + γ g_{k+1} over the turns k of a row, r_k the rewards of its tokens
//	A^S_k = (g_k - p_k) - mean of the turns with the same anchor
//	A     = A^E + ω A^S,   on the tokens of the turn
//
// s_i is the sum of row i's r_k, p_k the penalty of turn k where its action was
// invalid, else 0. mean_norm is this; mean_std_norm divides both by the unbiased
// standard deviation + 1e-6. The anchor of a turn is the observation that it
// answers, as the environment sent it; the first turn answers the reset. With a
// similarity below 1 anchors need not be equal: a turn joins the first group whose
// first anchor is similar enough (similarity.go), as in verl-agent. A turn
// without another of its anchor has A^S = 0. Source: Feng et al., GiGPO,
// arXiv:2505.10978, section 4; the penalty is verl-agent's and OpenManus-RL's
// (spec 5.9): off the score of that turn's row, on its last token, and off its
// step return, and in no other turn's.
//
// Differs from verl-agent and OpenManus-RL in: rows are whole episodes, not
// turns. Every episode counts once in A^E here, a turn as its share of it, in
// the mean and in the deviation; with a row for every turn, long episodes
// counted more. Episodes recorded without their first observation share the
// anchor of their first turns.

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
		Name: "gigpo", Doc: "group-in-group: episodes in their group, and turns that answer the same observation",
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
			all := make([]int, len(same))
			noise := 0.0
			for k, s := range same {
				g[k], all[k] = s.g, k
				noise = math.Max(noise, o.rounding(&rows[s.row]))
			}
			settle(g, all, noise)
			for k, a := range o.normed(g, all) {
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

// penalty is what turn t was paid less for an invalid action. A turn without
// tokens has none that could be paid less.
func (o Options) penalty(t *data.Turn) float64 {
	if t.Invalid() && t.End > t.Start {
		return o.InvalidActionPenalty
	}
	return 0
}

// rounding is that of a row's rewards and of what they were before penalties.
func (o Options) rounding(r *data.Row) float64 {
	noise := rounding(r)
	for k := range r.Turns {
		noise += o.penalty(&r.Turns[k]) * roundingShare
	}
	return noise
}

// episodePart sets the advantages of a group's rows to A^E.
func (o Options) episodePart(rows []data.Row, members []int) {
	scores := make([]float64, len(rows)) // before penalties
	noise := 0.0
	for _, i := range members {
		r := &rows[i]
		scores[i] = r.RewardSum()
		for k := range r.Turns {
			scores[i] += o.penalty(&r.Turns[k])
		}
		noise = math.Max(noise, o.rounding(r))
	}
	settle(scores, members, noise)
	// each calls f with what every turn of a row is worth and its share of the row.
	each := func(i int, f func(x, share float64)) {
		turns := rows[i].Turns
		if len(turns) == 0 { // in which nothing was said
			f(scores[i], 1)
		}
		for k := range turns {
			f(scores[i]-o.penalty(&turns[k]), 1/float64(len(turns)))
		}
	}
	mean, std := 0.0, 1.0 // of a group of one row, as in verl
	if n := float64(len(members)); n > 1 {
		variance := 0.0
		for _, i := range members {
			each(i, func(x, share float64) { mean += x * share / n })
		}
		for _, i := range members {
			each(i, func(x, share float64) { variance += (x - mean) * (x - mean) * share / (n - 1) })
		}
		std = math.Sqrt(variance)
	}
	scale := 1.0
	if gigpoNorm.In(o.Params) == MeanStdNorm {
		scale = 1 / (std + epsilon)
	}
	for _, i := range members {
		r := &rows[i]
		r.Advantages = broadcast((scores[i]-mean)*scale, r.Mask)
		for k := range r.Turns {
			t := &r.Turns[k]
			for at := t.Start; at < t.End; at++ {
				if r.Mask[at] == 1 {
					r.Advantages[at] = float32((scores[i] - o.penalty(t) - mean) * scale)
				}
			}
		}
		r.Returns = r.Advantages
	}
}

// normed are the scores of the members, in their order, less their mean and,
// with mean_std_norm, in units of their spread.
func (o Options) normed(scores []float64, members []int) []float64 {
	mean, std := MeanStd(scores, members)
	out := make([]float64, len(members))
	for k, i := range members {
		out[k] = scores[i] - mean
		if gigpoNorm.In(o.Params) == MeanStdNorm {
			out[k] /= std + epsilon
		}
	}
	return out
}

// anchored are the turns of a group by what they answer, in the order in which
// the anchors come up.
func (o Options) anchored(rows []data.Row, members []int) [][]step {
	type anchor struct {
		unknown     bool // the answer to a reset that was not recorded
		observation string
	}
	at := map[anchor]int{}
	var out [][]step
	var firsts [][]rune // the first observation of each group; nil where it is unknown or no other is similar
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

// stepReturns are the discounted sums of the turns' rewards from each turn on,
// each less the turn's own penalty: an invalid action is not held against the
// turns before it.
func (o Options) stepReturns(r *data.Row) []float64 {
	g := make([]float64, len(r.Turns))
	next := 0.0
	for k := len(g) - 1; k >= 0; k-- {
		for _, x := range r.Rewards[r.Turns[k].Start:r.Turns[k].End] {
			g[k] += float64(x)
		}
		p := o.penalty(&r.Turns[k]) // which the last token was paid less
		g[k] += p + gamma.In(o.Params)*next
		next = g[k]
		g[k] -= p
	}
	return g
}
