package view

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine returns untrusted text for a line of a terminal: without line ends and
// control characters. If most is not 0, it limits the number of runes.
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

// visible returns text without control and invisible characters except line ends
// and tabs.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return harmless(r)
	}, s)
}

// harmless replaces control characters by their pictures. It replaces characters that
// are invisible or change the direction of writing by U+FFFD, as Go does with invalid
// bytes. It keeps the two joiners, which some scripts and emoji need.
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
