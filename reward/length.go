package reward

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// With e = max(0, len - max_length) + max(0, min_length - len):
// linear e, quadratic e², logarithmic ln(1 + e). A component's weight is
// negative, -0.01 for one.
//
// Source: length_penalty of OpenManus-RL's documentation, which has no code
// for it (spec 6.1).
//
// Differs in: unit says what is counted, the sampled tokens unless set.
func init() {
	Functions.Register("length", Function{Keys: []string{"max_length", "min_length", "penalty_type", "unit"}, New: func(p Params) (func(*Sample) (Score, error), error) {
		if p.MaxLength == 0 && p.MinLength == 0 {
			return nil, errors.New("set max_length or min_length")
		}
		if p.MaxLength > 0 && p.MinLength > p.MaxLength {
			return nil, fmt.Errorf("min_length %d is more than max_length %d", p.MinLength, p.MaxLength)
		}
		return func(s *Sample) (Score, error) {
			n, err := s.length(p.Unit)
			if err != nil {
				return Score{}, err
			}
			return Score{Value: excess(n, p)}, nil
		}, nil
	}})
}

func excess(n int, p Params) float64 {
	e := max(0, p.MinLength-n)
	if p.MaxLength > 0 {
		e += max(0, n-p.MaxLength)
	}
	switch x := float64(e); p.PenaltyType {
	case "quadratic":
		return x * x
	case "logarithmic":
		return math.Log1p(x)
	default:
		return x
	}
}

// length counts the response.
func (s *Sample) length(unit string) (int, error) {
	switch unit {
	case "words":
		return len(strings.Fields(s.Response)), nil
	case "characters":
		return len([]rune(s.Response)), nil
	}
	if s.Tokens < 0 {
		return 0, errors.New("nobody counted its tokens: score replies of openmanus generate, or set unit to words or characters")
	}
	return s.Tokens, nil
}
