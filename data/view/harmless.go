package view

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine is text that came from elsewhere as a terminal may print it: on one
// line, and with nothing that moves the cursor or changes colours. Where most
// is not 0, more runes than that are cut off.
func OneLine(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; most > 0 && n > most {
			b.WriteString("…")
			break
		}
		switch r {
		case '\n':
			b.WriteString("⏎")
		case '\t':
			b.WriteByte(' ')
		default:
			b.WriteRune(harmless(r))
		}
	}
	return b.String()
}

// visible is text with its line ends and tabs, and without anything else that
// would not be seen as what it is.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return harmless(r)
	}, s)
}

// harmless replaces control characters by their pictures, and what turns the
// direction of writing or shows nothing by U+FFFD, as invalid bytes are. The
// two joiners, which scripts and emoji need, stay.
func harmless(r rune) rune {
	const nonJoiner, joiner, lineSeparator, paragraphSeparator = 0x200c, 0x200d, 0x2028, 0x2029
	switch {
	case r == nonJoiner || r == joiner:
		return r
	case r < ' ':
		return 0x2400 + r
	case r == 0x7f:
		return 0x2421
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == lineSeparator, r == paragraphSeparator:
		return utf8.RuneError
	}
	return r
}
