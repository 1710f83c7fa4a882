package reward

import (
	"math/big"
	"regexp"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// 1 if the integer in the last <answer> equals the ground truth, else
// format_score; 0 without an answer or if it is not an integer.
//
// Source: OpenManus-RL verl/utils/reward_score/multiply.py (spec 6.3).
//
// Differs in: only replies are scored, so no "Assistant:" is required;
// format_score is 0 by default (0.1 upstream).
func init() {
	Functions.Add(registry.Entry{
		Name: "multiply", Doc: "1 if the integer in the last <answer> is the ground truth",
		Params: []registry.Param{formatScore.Param},
	}, Function{NeedsTruth: true, Score: func(v registry.Values, s *Sample) (Score, error) {
		answer, _ := answerOnLine(s.Response)
		got, ok := integer(answer)
		if !ok {
			return Score{}, nil
		}
		return oneIf(v, slices.ContainsFunc(Targets(s.GroundTruth), func(target string) bool {
			want, ok := integer(target)
			return ok && got.Cmp(want) == 0
		})), nil
	}})
}

// pythonInt parses an integer as Python's int() does.
var pythonInt = regexp.MustCompile(`^[+-]?[0-9]+(_[0-9]+)*$`)

func integer(s string) (*big.Int, bool) {
	s = strings.TrimSpace(s)
	if len(s) > 1000 || !pythonInt.MatchString(s) {
		return nil, false
	}
	return new(big.Int).SetString(strings.TrimPrefix(strings.ReplaceAll(s, "_", ""), "+"), 10)
}
