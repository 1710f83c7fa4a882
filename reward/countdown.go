package reward

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/reward/mathexpr"
)

// 1 if the arithmetic expression in the last <answer> of the last line uses each
// given number exactly once and equals the target (within 1e-5), else
// format_score; 0 without an answer. The ground truth is
// {"target": 24, "numbers": [4, 6, 1]}.
//
// Source: OpenManus-RL verl/utils/reward_score/countdown.py, from TinyZero
// (spec 6.3).
//
// Differs in: only replies are scored, so no "Assistant:" is required; newlines
// after the answer are ignored; the expression is parsed instead of passed to
// eval; format_score is 0 by default (0.1 upstream).
func init() {
	Functions.Add(registry.Entry{
		Name: "countdown", Doc: "1 if the arithmetic in the last <answer> uses each number once and gives the target",
		Params: []registry.Param{formatScore.Param},
	}, Function{NeedsTruth: true, Score: func(v registry.Values, s *Sample) (Score, error) {
		var puzzle struct {
			Target  *float64 `json:"target"`
			Numbers []int64  `json:"numbers"`
		}
		if err := json.Unmarshal([]byte(s.GroundTruth), &puzzle); err != nil || puzzle.Target == nil || len(puzzle.Numbers) == 0 {
			return Score{}, fmt.Errorf(`its ground truth is %.60q, not one such as {"target": 24, "numbers": [4, 6, 1]}`, s.GroundTruth)
		}
		answer, ok := answerOnLine(lastLine(s.Response))
		if !ok {
			return Score{}, nil
		}
		return oneIf(v, usesNumbers(answer, puzzle.Numbers) && makes(answer, *puzzle.Target)), nil
	}})
}

var integers = regexp.MustCompile(`[0-9]+`)

// usesNumbers reports whether the integers in text are exactly numbers, in any
// order.
func usesNumbers(text string, numbers []int64) bool {
	var used []int64
	for _, digits := range integers.FindAllString(text, -1) {
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return false
		}
		used = append(used, n)
	}
	return slices.Equal(slices.Sorted(slices.Values(used)), slices.Sorted(slices.Values(numbers)))
}

func makes(text string, target float64) bool {
	n, err := mathexpr.Python(strings.TrimSpace(text))
	return err == nil && math.Abs(n.Float(nil)-target) < 1e-5
}

// answerOnLine returns the last <answer> that begins and ends on one line.
func answerOnLine(text string) (string, bool) {
	answer, ok := "", false
	for line := range strings.SplitSeq(text, "\n") {
		if found := tagged(line, "answer"); len(found) > 0 {
			answer, ok = strings.TrimSpace(found[len(found)-1]), true
		}
	}
	return answer, ok
}

// lastLine returns the last line of a text, ignoring newlines at its end.
func lastLine(text string) string {
	text = strings.TrimRight(text, "\r\n")
	return text[strings.LastIndexByte(text, '\n')+1:]
}
