package registry

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Range describes the allowed values of a configuration key.
type Range struct {
	Allowed string // such as "at least 0"; "" if every value of the type is allowed
	// Check returns why a value is not allowed, or "". It is nil if every value
	// is allowed. The value is a string, bool, int, uint64, float64,
	// [2]float64, []string or map[string]string.
	Check func(v any) string
}

// Any allows every value of the key's type.
var Any = Range{}

// Problem returns why v is not allowed, or "".
func (r Range) Problem(v any) string {
	if r.Check == nil {
		return ""
	}
	return r.Check(v)
}

// OneOf allows the given words. Planned words are rejected as not implemented.
func OneOf(words []string, planned ...string) Range {
	allowed := strings.Join(words, " | ")
	return Range{allowed, func(v any) string {
		s := v.(string)
		switch {
		case slices.Contains(words, s):
			return ""
		case slices.Contains(planned, s):
			return fmt.Sprintf("%q is not implemented yet; allowed now: %s", s, allowed)
		}
		msg := fmt.Sprintf("%q is not allowed; allowed: %s", s, allowed)
		if n := Nearest(s, words); n != "" {
			msg += fmt.Sprintf("; did you mean %q?", n)
		}
		return msg
	}}
}

// EachOf allows lists of the given words without repetition.
func EachOf(words []string, planned ...string) Range {
	one := OneOf(words, planned...)
	return Range{"a list of " + one.Allowed, func(v any) string {
		for i, s := range v.([]string) {
			if msg := one.Check(s); msg != "" {
				return msg
			}
			if slices.Contains(v.([]string)[:i], s) {
				return fmt.Sprintf("%q is listed twice", s)
			}
		}
		return ""
	}}
}

// Numbers allows the finite numbers for which the function ok returns true.
func Numbers(allowed string, ok func(x float64) bool) Range {
	return Range{allowed, func(v any) string {
		x := number(v)
		if math.IsNaN(x) || math.IsInf(x, 0) || !ok(x) {
			return fmt.Sprintf("%v is not allowed; allowed: %s", v, allowed)
		}
		return ""
	}}
}

func number(v any) float64 {
	switch n := v.(type) {
	case int:
		return float64(n)
	case uint64:
		return float64(n)
	case float64:
		return n
	}
	panic(fmt.Sprintf("registry: a numeric range for a %T", v))
}

// Finite allows every number but NaN and the infinities.
var Finite = Numbers("a finite number", func(float64) bool { return true })

// AtLeast allows x >= lo.
func AtLeast(lo float64) Range {
	return Numbers(fmt.Sprintf("at least %v", lo), func(x float64) bool { return x >= lo })
}

// Above allows x > lo.
func Above(lo float64) Range {
	return Numbers(fmt.Sprintf("above %v", lo), func(x float64) bool { return x > lo })
}

// Between allows lo <= x <= hi.
func Between(lo, hi float64) Range {
	return Numbers(fmt.Sprintf("from %v to %v", lo, hi), func(x float64) bool { return x >= lo && x <= hi })
}

// AboveTo allows lo < x <= hi.
func AboveTo(lo, hi float64) Range {
	return Numbers(fmt.Sprintf("above %v, at most %v", lo, hi), func(x float64) bool { return x > lo && x <= hi })
}

// OrUnset allows -1, which means "not set", and numbers of at least 0.
var OrUnset = Numbers("-1 (not set), or at least 0", func(x float64) bool { return x >= -1 })
