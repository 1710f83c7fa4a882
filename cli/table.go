package cli

import (
	"strings"
	"unicode/utf8"
)

// tableColumns is the width of tables and of wrapped text on stdout, which may be a file.
const tableColumns = 79

// formatTable formats rows of cells, of which the first row is the header. The first left columns are aligned to the left, the
// others to the right. A table wider than the limit gets shorter cells in its widest left column.
func formatTable(rows [][]string, left, limit int) string {
	widths := make([]int, len(rows[0]))
	total := 0
	for i := range widths {
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		total += 2 + widths[i]
	}
	const shortest = 8
	for total > limit {
		i := 0
		for k := range left {
			if widths[k] > widths[i] {
				i = k
			}
		}
		if widths[i] <= shortest {
			break
		}
		widths[i]--
		total--
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if n := widths[i]; utf8.RuneCountInString(cell) > n {
				cell = cut(cell, n-1) + "…"
			}
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < left {
				line.WriteString("  " + cell + padding)
			} else {
				line.WriteString("  " + padding + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

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
		case used+1+n+len(" \\") > tableColumns:
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
