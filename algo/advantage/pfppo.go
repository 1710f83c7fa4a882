package advantage

// PF-PPO: the rows are resampled with replacement, to the same number, with
// weights from their scores.
//
//	pow         weight |s|^p
//	max_min     1 for the highest and the lowest score, 0 for others
//	max_random  0.4 for the highest score, 0.1 for others
//
// The score s is the episode's original score: before penalties, before a KL in
// the reward, and before the score is distributed over tokens, because
// the float32 sum over the tokens may differ from the score.
//
// Source: Shen et al., "Policy Filtration in RLHF", arXiv:2409.06957, as in
// verl, which supports PF-PPO for gae only; here it works after any estimator.
//
// Differs from verl in: the random numbers depend on the run's seed and the step,
// so that a resumed run draws the same rows. If all weights are 0, the rows are
// unchanged.

import (
	"math"
	"math/rand/v2"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// Reweightings holds the weight functions of PF-PPO by name. A function returns
// the weight of a row with score s, where lo and hi are the lowest and highest
// score of the batch and v the parameters.
var Reweightings = registry.New[func(s, lo, hi float64, v registry.Values) float64]("PF-PPO weighting")

var weightPow = registry.NewParam("pf_ppo_weight_pow", 2.0, "exponent of |score|", registry.Above(0))

func init() {
	Reweightings.Add(registry.Entry{Name: "pow", Doc: "a power of the absolute score", Params: []registry.Param{weightPow.Param}}, func(s, _, _ float64, v registry.Values) float64 { return math.Pow(math.Abs(s), weightPow.In(v)) })
	Reweightings.Add(registry.Entry{Name: "max_min", Doc: "1 for the highest and the lowest score, 0 for others"}, func(s, lo, hi float64, _ registry.Values) float64 {
		if s == lo || s == hi {
			return 1
		}
		return 0
	})
	Reweightings.Add(registry.Entry{Name: "max_random", Doc: "0.4 for the highest score, 0.1 for others"}, func(s, _, hi float64, _ registry.Values) float64 {
		if s == hi {
			return 0.4
		}
		return 0.1
	})
}

// Resample draws as many episodes as the given rows contain, with the weights of
// the named reweighting. An episode is drawn with all its contexts.
// The result shares the slices of the given rows.
func Resample(rows []data.Row, name string, v registry.Values, seed, step uint64) ([]data.Row, error) {
	weight, err := Reweightings.Lookup(name)
	if err != nil {
		return nil, err
	}
	spans, err := data.EpisodeSpans(rows)
	if err != nil {
		return nil, err
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, span := range spans {
		s := rows[span[0]].Score
		lo, hi = min(lo, s), max(hi, s)
	}
	cum := make([]float64, len(spans)) // running sums of the weights
	total := 0.0
	for i, span := range spans {
		total += weight(rows[span[0]].Score, lo, hi, v)
		cum[i] = total
	}
	if !(total > 0) {
		return rows, nil
	}
	r := rand.NewPCG(seed, step)
	var out []data.Row
	for range spans {
		u := float64(r.Uint64()>>11) / (1 << 53) * total
		i := 0
		for i < len(cum)-1 && cum[i] <= u {
			i++
		}
		out = append(out, rows[spans[i][0]:spans[i][1]]...)
	}
	return out, nil
}
