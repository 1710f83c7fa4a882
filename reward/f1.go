package reward

import (
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// With the words of the normalised answer and target as multisets:
// P = common / words of the answer, R = common / words of the target,
// F1 = 2PR / (P + R); 1 if both texts are empty, 0 if only one is. With several targets the
// maximum counts.
//
// Source: the evaluation script of SQuAD (Rajpurkar et al. 2016). OpenManus-RL
// documents such a function but does not implement it (spec 6.3).
//
// Differs in: texts are normalised as by qa_em, which also drops "by".
func init() {
	Functions.Add(registry.Entry{
		Name: "f1", Doc: "F1 of the words of the answer and of a target",
		Params: []registry.Param{minAnswerTags.Param},
	}, answerFunction(0, func(_ registry.Values, answer string, targets []string) Score {
		best := 0.0
		for _, target := range targets {
			best = max(best, f1(answer, target))
		}
		return Score{Value: best}
	}))
}

func f1(answer, target string) float64 {
	a, b := strings.Fields(normalizeAnswer(answer)), strings.Fields(normalizeAnswer(target))
	if len(a) == 0 || len(b) == 0 {
		if len(a) == len(b) {
			return 1
		}
		return 0
	}
	left := map[string]int{}
	for _, w := range b {
		left[w]++
	}
	common := 0
	for _, w := range a {
		if left[w] > 0 {
			left[w]--
			common++
		}
	}
	return 2 * float64(common) / float64(len(a)+len(b))
}
