package cli

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// errEnoughRows ends the reading of a file whose first rows are enough.
var errEnoughRows = errors.New("enough rows")

// inputError makes an error of reading one of bad input, unless it knows
// better.
func inputError(err error) error {
	var known *exitError
	if errors.As(err, &known) {
		return err
	}
	return errWith(ExitInput, "", err)
}

// shown is text that came from elsewhere as a terminal may print it: on one
// line, and with nothing that moves the cursor or changes colours. Where most
// is not 0, more runes than that are cut off.
func shown(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; most > 0 && n > most {
			b.WriteString("…")
			break
		}
		switch {
		case r == '\n':
			b.WriteString("⏎")
		case r == '\t':
			b.WriteByte(' ')
		default:
			b.WriteRune(harmless(r))
		}
	}
	return b.String()
}

// shownLines is shown, with its lines kept and put behind indent.
func shownLines(s, indent string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimRight(s, "\n"), "\n") {
		b.WriteString(indent)
		b.WriteString(shown(line, 0))
		b.WriteByte('\n')
	}
	return b.String()
}

// harmless replaces control characters by their pictures, and what turns the
// direction of writing or shows nothing by U+FFFD.
func harmless(r rune) rune {
	switch {
	case r < 0x20:
		return 0x2400 + r
	case r == 0x7f:
		return 0x2421
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == 0x2028, r == 0x2029:
		return utf8.RuneError
	}
	return r
}
