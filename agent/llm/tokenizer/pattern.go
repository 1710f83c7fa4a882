package tokenizer

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dlclark/regexp2"
)

// pattern is a Split pattern. Hugging Face uses Oniguruma. This package uses
// regexp2, a port of .NET's engine: compilePattern accepts only syntax with the
// same meaning in both engines, and prepare replaces the runes that the engines
// fold or classify differently.
type pattern struct {
	re    *regexp2.Regexp
	foldS bool // re has the contractions group, in which ſ (U+017F) matches s in Oniguruma
}

// contractions is the only supported case-insensitive group. Oniguruma folds
// more letters than regexp2; in this group the only difference is ſ.
const contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`

// maxPattern bounds the length of a pattern from an untrusted file.
const maxPattern = 2000

// maxRepeats bounds the repetitions in one alternative: with k repetitions,
// matching may take time proportional to the k-th power of the text's length.
const maxRepeats = 3

// The supported escapes and counted repetitions. The members of the Unicode
// categories are the same as in Hugging Face's tokenizers (classes.json).
var (
	escape = regexp.MustCompile(`^\\(?:[rntsS]|[pP]\{(?:L[ultmo]?|[NMPS])\}|[^0-9A-Za-z\x80-\x{10FFFF}])`)
	repeat = regexp.MustCompile(`^\{[0-9]{1,3}(?:,[0-9]{0,3})?\}`)
)

// compilePattern returns the splitter of a pattern.
func compilePattern(src string) (splitter, error) {
	if err := checkPattern(src); err != nil {
		return nil, fmt.Errorf("pattern %q: %w", src, err)
	}
	re, err := regexp2.Compile(src, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", src, err)
	}
	p := &pattern{re: re, foldS: strings.Contains(src, contractions)}
	return p.matches, nil
}

// checkPattern accepts literals, groups (…) (?:…) (?=…) (?!…), the contractions
// group, classes, the escapes above and simple quantifiers. Everything else
// differs between the two engines (\w, \h, ^, &&, possessive quantifiers) or is
// untested. It also rejects repetitions that could make matching exponential.
func checkPattern(src string) error {
	if len(src) > maxPattern {
		return fmt.Errorf("longer than %d bytes", maxPattern)
	}
	inClass := false
	quantified := false // the last item was a quantifier
	grouped := false    // the last item was the end of a group
	repeats := 0        // number of repetitions in this alternative of the pattern
	depth := 0          // number of open groups
	for i := 0; i < len(src); {
		rest := src[i:]
		n, quantifier, closed := 1, false, false
		switch c := rest[0]; {
		case c == '\\':
			if n = len(escape.FindString(rest)); n == 0 {
				return fmt.Errorf("escape at byte %d is not supported", i)
			}
		case inClass:
			switch {
			case c == ']':
				inClass = false
			case c == '[' || strings.HasPrefix(rest, "&&"):
				return fmt.Errorf("nested class or intersection at byte %d is not supported", i)
			}
		case c == '[':
			inClass = true
			if strings.HasPrefix(rest, "[^") {
				n = 2
			}
			if strings.HasPrefix(rest[n:], "]") {
				return fmt.Errorf("']' at the start of a class at byte %d is not supported", i)
			}
		case c == '(':
			if n = groupLen(rest); n == 0 {
				return fmt.Errorf("group at byte %d is not supported", i)
			}
			if rest[:n] != contractions {
				depth++
			}
		case c == '{':
			quantifier = true
			if n = len(repeat.FindString(rest)); n == 0 {
				return fmt.Errorf("repetition at byte %d is not supported", i)
			}
		case c == '*' || c == '+' || c == '?':
			quantifier = true
		case c == '|':
			if depth == 0 {
				repeats = 0
			}
		case c == ')':
			closed = true
			depth--
		case c == '^' || c == '$' || c == '.':
			return fmt.Errorf("%q at byte %d is not supported", c, i)
		}
		if quantifier && quantified {
			return fmt.Errorf("lazy or possessive quantifier at byte %d is not supported", i)
		}
		if quantifier && rest[0] != '?' {
			if repeats++; repeats > maxRepeats || grouped {
				return fmt.Errorf("repetition at byte %d may be too slow: it repeats a group, or its alternative has more than %d repetitions", i, maxRepeats)
			}
		}
		quantified, grouped = quantifier, closed
		i += n
	}
	return nil
}

func groupLen(s string) int {
	if !strings.HasPrefix(s, "(?") {
		return 1
	}
	for _, p := range []string{contractions, "(?:", "(?=", "(?!"} {
		if strings.HasPrefix(s, p) {
			return len(p)
		}
	}
	return 0
}

// prepare replaces runes that regexp2 classifies differently. Positions stay the
// same.
func (p *pattern) prepare(text []rune) []rune {
	differs := func(r rune) bool { return p.standIn(r) != r }
	if !slices.ContainsFunc(text, differs) {
		return text
	}
	out := slices.Clone(text)
	for i, r := range out {
		out[i] = p.standIn(r)
	}
	return out
}

func (p *pattern) standIn(r rune) rune {
	if r == 'ſ' && p.foldS {
		return 's'
	}
	return standIn(r)
}

func (p *pattern) matches(text []rune, match func(from, to int)) {
	// Errors are ignored: regexp2 returns them only if a match timeout is set. The
	// match is then nil, which ends the loop.
	m, _ := p.re.FindRunesMatch(p.prepare(text))
	for m != nil {
		match(m.Index, m.Index+m.Length)
		m, _ = p.re.FindNextMatch(m)
	}
}
