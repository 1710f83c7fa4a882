package reward

import (
	"errors"
	"fmt"
)

// 0 up to max_length - overlong_buffer sampled tokens, from there straight
// down to -overlong_factor at max_length, and that beyond.
//
// Source: soft overlong punishment of DAPO (Yu et al. 2025, eq. 13); verl's
// reward_model.overlong_buffer (spec 6.4).
//
// Differs from verl in: the length is that of all replies of an episode, which
// can be more than max_length, so the punishment stops at -overlong_factor, as
// in the paper.
func init() {
	Functions.Register("overlong", Function{Keys: []string{"max_length", "overlong_buffer", "overlong_factor"}, New: func(p Params) (func(*Sample) (Score, error), error) {
		switch {
		case p.MaxLength < 1 || p.Buffer < 1:
			return nil, errors.New("set max_length and overlong_buffer")
		case p.Buffer > p.MaxLength:
			return nil, fmt.Errorf("overlong_buffer %d is more than max_length %d", p.Buffer, p.MaxLength)
		}
		return func(s *Sample) (Score, error) {
			n, err := s.length("tokens")
			if err != nil {
				return Score{}, err
			}
			return Score{Value: -p.Factor * overlong(n, p.MaxLength, p.Buffer)}, nil
		}, nil
	}})
}

// overlong is how far into the buffer n reaches, from 0 to 1.
func overlong(n, most, buffer int) float64 {
	return min(1, max(0, float64(n-(most-buffer))/float64(buffer)))
}
