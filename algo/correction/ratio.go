package correction

import (
	"fmt"

	"github.com/openmanus/openmanus/data"
)

// sequence holds the sampled tokens of one episode over all its contexts, without the
// first token of each context, which is not predicted.
type sequence struct {
	at []place
	x  []float64 // log π_old - log π_rollout of each token
}

// place is the position of a token: row and column.
type place struct{ row, token int }

// sequences returns one sequence per episode, for any number of contexts (rows).
func sequences(rows []data.Row) ([]sequence, error) {
	for i := range rows {
		r := &rows[i]
		if len(r.OldLogProbs) != len(r.Mask) || len(r.RolloutLogProbs) != len(r.Mask) {
			return nil, fmt.Errorf("rollout correction: row %d (%s) has %d old and %d recorded log-probs for %d tokens",
				i, r.UID, len(r.OldLogProbs), len(r.RolloutLogProbs), len(r.Mask))
		}
	}
	spans, err := data.EpisodeSpans(rows)
	if err != nil {
		return nil, fmt.Errorf("rollout correction: %w", err)
	}
	out := make([]sequence, len(spans))
	for e, span := range spans {
		for i := span[0]; i < span[1]; i++ {
			r := &rows[i]
			for t, m := range r.Mask {
				if m == 1 && t > 0 {
					out[e].at = append(out[e].at, place{i, t})
					out[e].x = append(out[e].x, float64(r.OldLogProbs[t])-float64(r.RolloutLogProbs[t]))
				}
			}
		}
	}
	return out, nil
}

func sum(xs []float64) float64 {
	s := 0.0
	for _, x := range xs {
		s += x
	}
	return s
}
