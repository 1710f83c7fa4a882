package reward

import (
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/reward/mathexpr"
)

// verdict is the result of comparing two answers.
type verdict int

const (
	different verdict = iota
	same
	undecided // the comparison has no result
)

// equalMath compares two answers: as normalised texts, element by element if both
// are tuples, intervals or lists, exactly if both are rational, and otherwise at
// points where both can be evaluated.
func equalMath(a, b string) verdict {
	a, b = normalizeMath(strings.TrimSpace(a)), normalizeMath(strings.TrimSpace(b))
	if a == b {
		return same
	}
	a, b = joinThousands(a), joinThousands(b)
	as, bs := elements(a), elements(b)
	if len(as) > 1 || len(bs) > 1 {
		return equalLists(as, bs)
	}
	x, errX := mathexpr.LaTeX(a)
	y, errY := mathexpr.LaTeX(b)
	if errX != nil || errY != nil {
		return undecided
	}
	p, okP := x.Rat()
	q, okQ := y.Rat()
	if okP && okQ {
		if p.Cmp(q) == 0 {
			return same
		}
		return different
	}
	return probe(x, y)
}

var thousands = regexp.MustCompile(`^-?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$`)

// joinThousands reads 1,234 as one number; in a tuple the text would be two numbers.
func joinThousands(s string) string {
	if thousands.MatchString(s) {
		return strings.ReplaceAll(s, ",", "")
	}
	return s
}

// elements splits at the commas outside brackets. The enclosing brackets, which
// distinguish open from closed intervals, are separate elements.
func elements(s string) []string {
	if n := len(s) - 1; n > 1 && strings.Contains("([", s[:1]) && strings.Contains(")]", s[n:]) {
		if inner := split(s[1:n]); len(inner) > 1 {
			return append(append([]string{s[:1]}, inner...), s[n:])
		}
	}
	return split(s)
}

func split(s string) []string {
	var out []string
	depth, start := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, s[start:i])
				start = i + 1
			}
		}
	}
	return append(out, s[start:])
}

func equalLists(as, bs []string) verdict {
	if len(as) != len(bs) {
		return different
	}
	v := same
	for i := range as {
		if as[i] == bs[i] {
			continue
		}
		if isBracket(as[i]) || isBracket(bs[i]) {
			return different
		}
		switch equalMath(as[i], bs[i]) {
		case different:
			return different
		case undecided:
			v = undecided
		}
	}
	return v
}

func isBracket(s string) bool { return len(s) == 1 && strings.Contains("()[]", s) }

// Limits of probe.
const (
	probes      = 24
	fewestPairs = 8 // smallest number of points with values of both expressions
	tolerance   = 1e-9
)

// probe evaluates both expressions at fixed points. A difference at one point is
// proof of inequality. Agreement to nine digits at many points is accepted as
// equality.
func probe(x, y *mathexpr.Node) verdict {
	names := map[string]bool{}
	x.Variables(names)
	y.Variables(names)
	sorted := slices.Sorted(maps.Keys(names))
	need, points := fewestPairs, probes
	if len(sorted) == 0 {
		need, points = 1, 1
	}
	rng := rand.New(rand.NewPCG(6, 3))
	agreed := 0
	for i := range points {
		vars := map[string]float64{}
		for _, name := range sorted {
			v := 0.2 + 2.5*rng.Float64()
			if i%3 == 2 { // most points are positive, for roots and logarithms
				v = -v
			}
			vars[name] = v
		}
		p, q := x.Float(vars), y.Float(vars)
		if math.IsNaN(p) || math.IsNaN(q) || math.IsInf(p, 0) || math.IsInf(q, 0) {
			continue
		}
		if math.Abs(p-q) > tolerance*max(1, math.Abs(p), math.Abs(q)) {
			return different
		}
		agreed++
	}
	if agreed < need {
		return undecided
	}
	return same
}
