package report

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
)

// Series is a metric over the steps of a phase. X increases.
type Series struct{ X, Y []float64 }

// add appends a point. A second value at the same step replaces the first.
func (s *Series) add(x, y float64) {
	if n := len(s.X); n > 0 && s.X[n-1] == x {
		s.Y[n-1] = y
		return
	}
	s.X, s.Y = append(s.X, x), append(s.Y, y)
}

// Last returns the last finite value, or NaN if there is none.
func (s *Series) Last() float64 {
	for i := len(s.Y) - 1; i >= 0; i-- {
		if !math.IsNaN(s.Y[i]) {
			return s.Y[i]
		}
	}
	return math.NaN()
}

// Thin returns a copy of the series with at most n points: the lowest and the highest of each of n/2
// ranges of points, so that spikes stay visible. NaN counts as the lowest value.
func (s *Series) Thin(n int) *Series {
	if len(s.X) <= n {
		return &Series{slices.Clone(s.X), slices.Clone(s.Y)}
	}
	out, ranges := &Series{}, max(1, n/2)
	for i := range ranges {
		from, to := i*len(s.X)/ranges, (i+1)*len(s.X)/ranges
		lo, hi := from, from
		for j := from; j < to; j++ {
			if math.IsNaN(s.Y[j]) || s.Y[j] < s.Y[lo] {
				lo = j
			}
			if s.Y[j] > s.Y[hi] || math.IsNaN(s.Y[hi]) {
				hi = j
			}
		}
		for _, j := range []int{min(lo, hi), max(lo, hi)} {
			out.add(s.X[j], s.Y[j])
		}
	}
	return out
}

// MarshalJSON encodes the numbers with six digits, and those that JSON lacks as null.
func (s *Series) MarshalJSON() ([]byte, error) {
	b := append([]byte(`{"x":`), numbers(s.X, 15)...)
	b = append(append(b, `,"y":`...), numbers(s.Y, 6)...)
	return append(b, '}'), nil
}

// UnmarshalJSON decodes the output of MarshalJSON.
func (s *Series) UnmarshalJSON(text []byte) error {
	var v struct{ X, Y []*float64 }
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	value := func(list []*float64) (out []float64) {
		for _, p := range list {
			if p == nil {
				out = append(out, math.NaN())
			} else {
				out = append(out, *p)
			}
		}
		return out
	}
	s.X, s.Y = value(v.X), value(v.Y)
	return nil
}

func numbers(values []float64, digits int) []byte {
	b := []byte{'['}
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendFloat(b, v, 'g', digits, 64)
		}
	}
	return append(b, ']')
}
