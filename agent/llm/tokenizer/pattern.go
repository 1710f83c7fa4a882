package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dlclark/regexp2"
)

// pattern is a Split pattern. The reference runs Oniguruma and we run regexp2,
// a port of .NET's engine; compilePattern admits only syntax that means the
// same in both, and prepares the text where the engines' case folding or
// Unicode version differ.
type pattern struct {
	re    *regexp2.Regexp
	foldS bool // has the contractions group, where Oniguruma lets ſ (U+017F) match s
}

// contractions is the only supported case-insensitive group. Oniguruma folds
// more than regexp2 does; for these letters the only difference is ſ.
const contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`

// maxPattern bounds the length of a pattern from an untrusted file.
const maxPattern = 2000

// maxRepeats bounds the repetitions in one alternative: with k repetitions,
// matching may take time proportional to the k-th power of the text's length.
const maxRepeats = 3

func compilePattern(src string) (*pattern, error) {
	if err := checkPattern(src); err != nil {
		return nil, fmt.Errorf("pattern %q: %w", src, err)
	}
	re, err := regexp2.Compile(src, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", src, err)
	}
	return &pattern{re: re, foldS: strings.Contains(src, contractions)}, nil
}

// checkPattern accepts literals, groups (…) (?:…) (?=…) (?!…), the
// contractions group, classes, the escapes below and simple quantifiers.
// Everything else either differs between the two engines (\w, \h, ^, &&,
// possessive quantifiers) or has not been checked to be equal. Repetitions
// that could make matching exponential are refused as well.
func checkPattern(src string) error {
	if len(src) > maxPattern {
		return fmt.Errorf("longer than %d bytes", maxPattern)
	}
	inClass := false
	quantified := false // the last item was a quantifier
	grouped := false    // the last item was the end of a group
	repeats := 0        // in this alternative of the whole pattern
	depth := 0          // of groups
	for i := 0; i < len(src); {
		rest := src[i:]
		n, quantifier, closed := 1, false, false
		switch c := rest[0]; {
		case c == '\\':
			if n = escapeLen(rest); n == 0 {
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
			if n = repeatLen(rest); n == 0 {
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

// categories are the Unicode categories that patterns may name. Their members
// were compared with the reference's (classes.json).
var categories = []string{"{L", "{Lu", "{Ll", "{Lt", "{Lm", "{Lo", "{N", "{M", "{P", "{S"}

// escapeLen is the length of the escape at the start of s, 0 if it is unknown.
func escapeLen(s string) int {
	if len(s) < 2 {
		return 0
	}
	switch c := s[1]; c {
	case 'r', 'n', 't', 's', 'S':
		return 2
	case 'p', 'P':
		if name, _, ok := strings.Cut(s[2:min(len(s), 6)], "}"); ok && slices.Contains(categories, name) {
			return len(`\p`) + len(name) + len("}")
		}
		return 0
	default:
		if c < 0x80 && !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') {
			return 2
		}
		return 0
	}
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

// repeatLen accepts {m}, {m,} and {m,n} with numbers of one to three digits.
func repeatLen(s string) int {
	end := strings.IndexByte(s, '}')
	if end < 0 {
		return 0
	}
	lo, hi, two := strings.Cut(s[1:end], ",")
	if !number(lo) || two && hi != "" && !number(hi) {
		return 0
	}
	return end + 1
}

func number(s string) bool {
	if s == "" || len(s) > 3 {
		return false
	}
	return strings.Trim(s, "0123456789") == ""
}

// prepare replaces runes that regexp2 classifies differently. Positions stay the
// same.
func (p *pattern) prepare(text []rune) []rune {
	for i, r := range text {
		if as := p.stand(r); as != r {
			out := append([]rune(nil), text...)
			for j := i; j < len(out); j++ {
				out[j] = p.stand(out[j])
			}
			return out
		}
	}
	return text
}

func (p *pattern) stand(r rune) rune {
	if r == 'ſ' && p.foldS {
		return 's'
	}
	return standIn(r)
}

// spans covers text with consecutive spans, matches and the gaps between them.
func (p *pattern) spans(dst []span, text []rune) []span {
	text = p.prepare(text)
	prev := 0
	// Without a match timeout regexp2 returns no error, and a nil match ends the
	// loop either way.
	m, _ := p.re.FindRunesMatch(text)
	for m != nil {
		if m.Index > prev {
			dst = append(dst, span{prev, m.Index, false})
		}
		prev = m.Index + m.Length
		dst = append(dst, span{m.Index, prev, true})
		m, _ = p.re.FindNextMatch(m)
	}
	if prev < len(text) {
		dst = append(dst, span{prev, len(text), false})
	}
	return dst
}
