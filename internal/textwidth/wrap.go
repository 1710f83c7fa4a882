// Package textwidth fits text for a person into the columns of a terminal: wrapped lines and tables.
package textwidth

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limit is the width of tables and of wrapped text on stdout, which may be a file.
const Limit = 79

// Cut returns the first n columns of text.
func Cut(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:max(n, 0)])
	}
	return text
}

// Wrap breaks lines at spaces so that they fit into the given number of columns. The rest of a line is indented by four
// more columns than its beginning. Longer words, such as paths, stay whole.
func Wrap(text string, columns int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimRight(line, "\n")
		if utf8.RuneCountInString(body) <= columns {
			b.WriteString(line)
			continue
		}
		indent := body[:len(body)-len(strings.TrimLeft(body, " "))]
		b.WriteString(indent)
		used, begun := len(indent), false
		for word := range strings.SplitSeq(body[len(indent):], " ") {
			n := utf8.RuneCountInString(word)
			switch {
			case !begun:
			case used+1+n > columns:
				b.WriteString("\n" + indent + "    ")
				used = len(indent) + 4
			default:
				b.WriteString(" ")
				used++
			}
			b.WriteString(word)
			used, begun = used+n, true
		}
		b.WriteString(line[len(body):])
	}
	return b.String()
}

// Count returns a number with its noun: 1 step, 2 steps.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
