package reward

import (
	"errors"
	"fmt"
	"regexp"
)

// The share of the patterns, regular expressions in Go's syntax, that match
// somewhere in a reply, and of an episode the mean over its replies.
//
// Source: format_reward of OpenManus-RL's documentation, weight 0.2, which has
// no code for it (spec 6.1).
//
// Differs in: an episode's replies are looked at one by one, so that a format
// is kept in every turn and not once.
func init() {
	Functions.Register("format", Function{Keys: []string{"patterns"}, New: func(p Params) (func(*Sample) (Score, error), error) {
		if len(p.Patterns) == 0 {
			return nil, errors.New(`set patterns, for one ["(?s)<think>.*</think>", "(?s)<action>.*</action>"]`)
		}
		var patterns []*regexp.Regexp
		for _, text := range p.Patterns {
			re, err := regexp.Compile(text)
			if err != nil {
				return nil, fmt.Errorf("pattern %q: %w", text, err)
			}
			patterns = append(patterns, re)
		}
		return func(s *Sample) (Score, error) {
			replies := s.replies()
			found := 0
			for _, reply := range replies {
				for _, re := range patterns {
					if re.MatchString(reply) {
						found++
					}
				}
			}
			if len(replies) == 0 {
				return Score{}, nil
			}
			return Score{Value: float64(found) / float64(len(patterns)*len(replies))}, nil
		}, nil
	}})
}
