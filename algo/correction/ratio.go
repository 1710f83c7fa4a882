package correction

import (
	"fmt"

	"github.com/openmanus/openmanus/data"
)

// sequence are the sampled tokens of one episode, over all its contexts, the
// first token of a context apart, which nothing predicts.
type sequence struct {
	at []place
	x  []float64 // there
}

// place is a token of a row.
type place struct{ row, token int }

// sequences are the rows' episodes: what is said of a sequence is said of an
// episode, into however many contexts its prompts have cut it.
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
