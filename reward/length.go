package reward

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// With e = max(0, len - max_length) + max(0, min_length - len):
// linear e, quadratic e², logarithmic ln(1 + e). The component's weight must be
// negative, such as -0.01.
//
// Source: length_penalty in OpenManus-RL's documentation, without code (spec 6.1).
//
// Differs in: unit selects tokens, words or characters; the default is sampled
// tokens.
var (
	minLength   = registry.NewParam("min_length", 0, "shortest response without a penalty", registry.AtLeast(0))
	penaltyType = registry.NewParam("penalty_type", "linear", "growth of the penalty with the excess", registry.OneOf([]string{"linear", "quadratic", "logarithmic"}))
	lengthUnit  = registry.NewParam("unit", "tokens", "unit of the length", registry.OneOf([]string{"tokens", "words", "characters"}))
)

func init() {
	Functions.Add(registry.Entry{
		Name: "length", Doc: "distance of the response's length from [min_length, max_length]; use a negative weight",
		Params: []registry.Param{maxLength.Param, minLength.Param, penaltyType.Param, lengthUnit.Param},
		Check: func(v registry.Values) (key, problem string) {
			switch most, least := maxLength.In(v), minLength.In(v); {
			case most == 0 && least == 0:
				return maxLength.Key, "set max_length or min_length"
			case most > 0 && least > most:
				return minLength.Key, fmt.Sprintf("%d is more than max_length %d", least, most)
			}
			return "", ""
		},
	}, Function{Score: func(v registry.Values, s *Sample) (Score, error) {
		n, err := s.length(lengthUnit.In(v))
		if err != nil {
			return Score{}, err
		}
		return Score{Value: excess(n, v)}, nil
	}})
}

func excess(n int, v registry.Values) float64 {
	e := max(0, minLength.In(v)-n)
	if most := maxLength.In(v); most > 0 {
		e += max(0, n-most)
	}
	switch x := float64(e); penaltyType.In(v) {
	case "quadratic":
		return x * x
	case "logarithmic":
		return math.Log1p(x)
	default:
		return x
	}
}

// length returns the length of the response in the unit.
func (s *Sample) length(unit string) (int, error) {
	switch unit {
	case "words":
		return len(strings.Fields(s.Response)), nil
	case "characters":
		return len([]rune(s.Response)), nil
	}
	if s.Tokens < 0 {
		return 0, errors.New("its tokens were not counted: score replies of openmanus generate, or set unit to words or characters")
	}
	return s.Tokens, nil
}
