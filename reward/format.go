package reward

import (
	"fmt"
	"regexp"

	"github.com/openmanus/openmanus/data/registry"
)

// The share of the patterns, regular expressions in Go's syntax, that match
// anywhere in a reply; for an episode the mean over its replies.
//
// Source: format_reward in OpenManus-RL's documentation, weight 0.2, without code
// (spec 6.1).
//
// Differs in: every reply of an episode is scored, so that each turn must keep the
// format.
var patterns = registry.NewParam("patterns", []string(nil), "regular expressions; the score is the share that matches", registry.Any)

func init() {
	Functions.Add(registry.Entry{
		Name: "format", Doc: "share of the patterns that match a reply",
		Params: []registry.Param{patterns.Param},
		Check: func(v registry.Values) (key, problem string) {
			if len(patterns.In(v)) == 0 {
				return patterns.Key, "set it, for example to [\"(?s)<think>.*</think>\"]"
			}
			for _, text := range patterns.In(v) {
				if _, err := regexp.Compile(text); err != nil {
					return patterns.Key, fmt.Sprintf("%q is not a regular expression: %v", text, err)
				}
			}
			return "", ""
		},
	}, Function{Score: func(v registry.Values, s *Sample) (Score, error) {
		replies := s.replies()
		if len(replies) == 0 {
			return Score{}, nil
		}
		found := 0
		for _, text := range patterns.In(v) {
			pattern := regexp.MustCompile(text) // cannot panic: Check has compiled it
			for _, reply := range replies {
				if pattern.MatchString(reply) {
					found++
				}
			}
		}
		return Score{Value: float64(found) / float64(len(patterns.In(v))*len(replies))}, nil
	}})
}
