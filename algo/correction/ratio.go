package correction

import (
	"fmt"

	"github.com/openmanus/openmanus/data"
)

// ratios are x on the sampled tokens of every row, the first token of a row
// apart, which nothing predicts.
func ratios(rows []data.Row) ([][]float64, error) {
	out := make([][]float64, len(rows))
	for i := range rows {
		r := &rows[i]
		if len(r.OldLogProbs) != len(r.Mask) || len(r.RolloutLogProbs) != len(r.Mask) {
			return nil, fmt.Errorf("rollout correction: row %d (%s) has %d old and %d recorded log-probs for %d tokens",
				i, r.UID, len(r.OldLogProbs), len(r.RolloutLogProbs), len(r.Mask))
		}
		for _, t := range places(r) {
			out[i] = append(out[i], float64(r.OldLogProbs[t])-float64(r.RolloutLogProbs[t]))
		}
	}
	return out, nil
}

// places are the sampled tokens of a row that something predicts.
func places(r *data.Row) []int {
	var out []int
	for t, m := range r.Mask {
		if m == 1 && t > 0 {
			out = append(out, t)
		}
	}
	return out
}

func sum(xs []float64) float64 {
	s := 0.0
	for _, x := range xs {
		s += x
	}
	return s
}
