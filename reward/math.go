package reward

import (
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// 1 if the last \boxed answer is the ground truth, else 0. The ground truth
// may be a whole solution with a box.
//
// Source: verl/utils/reward_score/math.py, after the code of MATH (Hendrycks
// et al. 2021): extraction, the normalisation of normalizeMath, and equality
// of the normalised texts (spec 6.3).
//
// Differs in: answers with different texts are compared as values (equalMath):
// exactly if both are rational numbers, else at points where both can be
// evaluated. If no point decides, the score is 0 and the extra number undecided is
// 1, so that the metrics show the frequency. \fbox counts as a box; upstream finds
// it and then fails. A quotient that cannot be written as \frac does not cancel
// the rest of the normalisation.
func init() {
	Functions.Add(registry.Entry{Name: "math", Doc: "1 if the last \\boxed answer equals the ground truth"}, Function{NeedsTruth: true, Score: func(_ registry.Values, s *Sample) (Score, error) {
		out := Score{Extra: map[string]float64{"undecided": 0}}
		answer, ok := boxed(s.Response)
		if !ok {
			return out, nil
		}
		for _, target := range mathTargets(s.GroundTruth) {
			if inside, ok := boxed(target); ok {
				target = inside
			}
			switch equalMath(answer, target) {
			case same:
				return Score{Value: 1, Extra: map[string]float64{"undecided": 0}}, nil
			case undecided:
				out.Extra["undecided"] = 1
			}
		}
		return out, nil
	}})
}

// mathTargets is like Targets, but treats "[0, 1]" as an interval.
func mathTargets(truth string) []string {
	if t := strings.TrimSpace(truth); strings.HasPrefix(t, "{") || strings.HasPrefix(t, `["`) {
		return Targets(truth)
	}
	return []string{truth}
}

// boxed returns the content of the last box: after "\boxed " up to the next $, in
// \boxed{ and \fbox{ up to the matching brace.
func boxed(text string) (string, bool) {
	if at := strings.LastIndex(text, `\boxed `); at >= 0 {
		inside, _, _ := strings.Cut(text[at+len(`\boxed `):], "$")
		return strings.TrimSpace(inside), true
	}
	at := max(strings.LastIndex(text, `\boxed{`), strings.LastIndex(text, `\fbox{`))
	if at < 0 {
		return "", false
	}
	text = text[at:]
	depth, start := 0, strings.IndexByte(text, '{')+1
	for i := start - 1; i < len(text); i++ {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return text[start:i], true
			}
		}
	}
	return "", false
}
