package reward

import "strings"

// With the words of the normalised answer and target as multisets:
// P = common / words of the answer, R = common / words of the target,
// F1 = 2PR / (P + R); 1 if both are empty, 0 if one is. Of several targets the
// best counts.
//
// Source: the evaluation script of SQuAD (Rajpurkar et al. 2016); OpenManus-RL
// names it in its documentation and has no such function (spec 6.3).
//
// Differs in: normalisation is that of qa_em, which also drops "by".
func init() {
	Functions.Register("f1", Function{NeedsTruth: true, Keys: []string{"min_answer_tags"}, New: func(p Params) (func(*Sample) (Score, error), error) {
		return func(s *Sample) (Score, error) {
			answer, ok := answerIn(s.Response, p.answerTags(0))
			if !ok {
				return Score{}, nil
			}
			best := 0.0
			for _, target := range Targets(s.GroundTruth) {
				best = max(best, f1(answer, target))
			}
			return Score{Value: best}, nil
		}, nil
	}})
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
