package generate

import (
	"cmp"
	"math"
	"slices"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/torch"
)

// mostProbable returns the n most probable tokens of a row of logits z, with
// log-probs over the tokens that top-k and top-p keep. It sorts only the tokens
// that are among the best so far, since the vocabulary is large and n is small.
func mostProbable(z []float32, row torch.SampleRow, n int) []engine.Candidate {
	least := math.Inf(-1)
	if truncated(row) {
		least, _ = edge(z, row)
	}
	largest, sum := slices.Max(z), 0.0
	best := make([]engine.Candidate, 0, n+1) // LogProb holds the logit until the sum is known
	for i, x := range z {
		if float64(x) < least {
			continue
		}
		sum += math.Exp(float64(x-largest) * scale(row))
		if len(best) == n && x <= best[n-1].LogProb {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, x, func(c engine.Candidate, x float32) int {
			return cmp.Or(cmp.Compare(x, c.LogProb), -1) // equal logits stay in the order of their ids
		})
		best = slices.Insert(best, at, engine.Candidate{ID: int32(i), LogProb: x})
		best = best[:min(len(best), n)]
	}
	for i := range best {
		best[i].LogProb = float32(float64(best[i].LogProb-largest)*scale(row) - math.Log(sum))
	}
	return best
}
