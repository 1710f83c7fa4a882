package cli

import (
	"strings"
	"unicode/utf8"

	"github.com/openmanus/openmanus/internal/textwidth"
)

// commandText formats a command to copy, indented by two columns. A line that would be too long ends with a backslash.
func commandText(words ...string) string {
	var b strings.Builder
	used := 0
	for i, word := range words {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
			b.WriteString("  ")
			used = 2
		case used+1+n+len(" \\") > textwidth.Limit:
			b.WriteString(" \\\n      ")
			used = 6
		default:
			b.WriteString(" ")
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String() + "\n"
}
