package reward

import (
	"fmt"

	"github.com/openmanus/openmanus/data/registry"
)

// 0 up to max_length - overlong_buffer sampled tokens, then linearly down to
// -overlong_factor at max_length, and constant beyond.
//
// Source: soft overlong punishment of DAPO (Yu et al. 2025, eq. 13); verl's
// reward_model.overlong_buffer (spec 6.4).
//
// Differs from verl in: the length is the sum over all replies of an episode and
// may exceed max_length, so the penalty is bounded by -overlong_factor, as in the
// paper.
var (
	overlongBuffer = registry.NewParam("overlong_buffer", 0, "tokens below max_length in which the penalty grows", registry.AtLeast(0))
	overlongFactor = registry.NewParam("overlong_factor", 1.0, "the penalty at max_length", registry.Above(0))
)

func init() {
	Functions.Add(registry.Entry{
		Name: "overlong", Doc: "DAPO's penalty for long responses",
		Params: []registry.Param{maxLength.Param, overlongBuffer.Param, overlongFactor.Param},
		Check: func(v registry.Values) (key, problem string) {
			switch most, buffer := maxLength.In(v), overlongBuffer.In(v); {
			case most == 0:
				return maxLength.Key, "set it, for example to rollout.max_new_tokens"
			case buffer == 0 || buffer > most:
				return overlongBuffer.Key, fmt.Sprintf("%d is not allowed; allowed: from 1 to max_length %d", buffer, most)
			}
			return "", ""
		},
	}, Function{Score: func(v registry.Values, s *Sample) (Score, error) {
		n, err := s.length("tokens")
		if err != nil {
			return Score{}, err
		}
		return Score{Value: -overlongFactor.In(v) * overlong(n, maxLength.In(v), overlongBuffer.In(v))}, nil
	}})
}

// overlong returns the share of the buffer that n tokens use, from 0 to 1.
func overlong(n, most, buffer int) float64 {
	return min(1, max(0, float64(n-(most-buffer))/float64(buffer)))
}
