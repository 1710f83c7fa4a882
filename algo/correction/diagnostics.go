package correction

// Diagnostics of the distance between the two policies, over sampled tokens or, if
// the name has ppl or seq, over episodes (spec 5.10):
//
//	kl             mean (log π_rollout - log π_old)
//	k3_kl          mean (exp(x) - 1 - x)
//	training_ppl   mean over episodes of exp(-mean log π_old); rollout_ppl likewise
//	log_ppl_diff   per episode: mean log π_rollout - mean log π_old
//	ppl_ratio      mean over episodes of exp(log_ppl_diff)
//	chi2_token     mean exp(2x) - 1
//	chi2_seq       mean over episodes of exp(2 Σ x) - 1

import (
	"math"

	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// Diagnose writes the diagnostics of rows that have old and recorded log-probs. It
// writes nothing if no token was sampled.
func Diagnose(rows []data.Row, m map[string]float64) error {
	seqs, err := sequences(rows)
	if err != nil {
		return err
	}
	tokens, sequences := 0.0, 0.0
	d := map[string]float64{}
	largest, least := math.Inf(-1), math.Inf(1)
	for _, seq := range seqs {
		if len(seq.x) == 0 {
			continue
		}
		n := float64(len(seq.x))
		old, recorded := 0.0, 0.0
		for _, p := range seq.at {
			old += float64(rows[p.row].OldLogProbs[p.token]) / n
			recorded += float64(rows[p.row].RolloutLogProbs[p.token]) / n
		}
		for _, v := range seq.x {
			d["kl"] -= v
			d["k3_kl"] += math.Exp(clamp(v)) - 1 - v
			d["chi2_token"] += math.Exp(2*clamp(v)) - 1
		}
		diff := recorded - old
		d["training_ppl"] += math.Exp(-old)
		d["rollout_ppl"] += math.Exp(-recorded)
		d["log_ppl_diff"] += diff
		d["log_ppl_abs_diff"] += math.Abs(diff)
		d["ppl_ratio"] += math.Exp(diff)
		d["chi2_seq"] += math.Exp(2*clamp(sum(seq.x))) - 1
		largest, least = math.Max(largest, diff), math.Min(least, diff)
		tokens += n
		sequences++
	}
	if tokens == 0 {
		return nil
	}
	for name, v := range d {
		over := sequences
		switch name {
		case "kl", "k3_kl", "chi2_token":
			over = tokens
		}
		m[track.RolloutCorrection+"/"+name] = v / over
	}
	m[track.RolloutCorrection+"/log_ppl_diff_max"], m[track.RolloutCorrection+"/log_ppl_diff_min"] = largest, least
	return nil
}
