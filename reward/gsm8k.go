package reward

import (
	"regexp"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// 1 if the last number of the reply, as text, equals the ground truth, else
// format_score; 0 without a number.
//
// Source: verl/utils/reward_score/gsm8k.py (spec 6.3). strict reads the number
// after the first "#### ", flexible the last number anywhere.
//
// Differs in: thousands commas, $ and a final full stop are removed in both
// methods and on both sides, so "42." and "1,234" are 42 and 1234. Upstream's
// flexible method keeps these characters and rejects such correct answers. A ground
// truth may be a worked solution with its number after ####, as in GSM8K's own files.
var gsm8kMethod = registry.NewParam("gsm8k_method", "strict", "strict: the number after ####; flexible: the last number",
	registry.OneOf([]string{"strict", "flexible"}))

func init() {
	Functions.Add(registry.Entry{
		Name: "gsm8k", Doc: "1 if the last number of the reply is the ground truth",
		Params: []registry.Param{formatScore.Param, gsm8kMethod.Param},
	}, Function{NeedsTruth: true, Score: func(v registry.Values, s *Sample) (Score, error) {
		find := gsm8kStrict
		if gsm8kMethod.In(v) == "flexible" {
			find = gsm8kFlexible
		}
		answer, ok := find(s.Response)
		if !ok {
			return Score{}, nil
		}
		return oneIf(v, slices.ContainsFunc(Targets(s.GroundTruth), func(target string) bool { return answer == gsm8kTarget(target) })), nil
	}})
}

var (
	gsm8kMarked  = regexp.MustCompile(`#### (-?[0-9.,]+)`)
	gsm8kNumbers = regexp.MustCompile(`-?[0-9.,]+`)
)

func gsm8kStrict(text string) (string, bool) {
	m := gsm8kMarked.FindStringSubmatch(strings.ReplaceAll(text, "$", ""))
	if m == nil {
		return "", false
	}
	n := plainNumber(m[1])
	return n, n != ""
}

func gsm8kFlexible(text string) (string, bool) {
	found := gsm8kNumbers.FindAllString(text, -1)
	for i := len(found) - 1; i >= 0; i-- {
		if n := plainNumber(found[i]); strings.ContainsAny(n, "0123456789") {
			return n, true
		}
	}
	return "", false
}

// gsm8kTarget returns the number of a ground truth. A worked solution, as in GSM8K's
// own files, ends with its number after ####.
func gsm8kTarget(text string) string {
	if n, ok := gsm8kStrict(text); ok {
		return n
	}
	return plainNumber(text)
}

// plainNumber removes commas, $ and a final full stop from a number.
func plainNumber(s string) string {
	return strings.TrimRight(strings.NewReplacer(",", "", "$", "").Replace(strings.TrimSpace(s)), ".")
}
