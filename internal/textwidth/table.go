package textwidth

import (
	"strings"
	"unicode/utf8"
)

// The alignments of a column of a table.
const (
	left  = 'l'
	right = 'r'
	text  = 't' // aligned to the left; long cells continue on the next lines
)

// shortest is the width below which no column is shortened.
const shortest = 8

// Table formats rows of cells, of which the first row is the header. The string align has a letter for each column: l, r, or t
// for a last column of text, which is wrapped. If a table is wider than Limit, its widest left column gets
// narrower: a wider first cell gets a line of its own, and other cells are cut.
func Table(align string, rows [][]string) string {
	widths := make([]int, len(align))
	total := 0
	for i := range widths {
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		total += 2 + widths[i]
	}
	if last := len(align) - 1; align[last] == text {
		room := max(Limit-total+widths[last], 20)
		total -= max(0, widths[last]-room)
		widths[last] = min(widths[last], room)
	}
	for total > Limit {
		widest := -1
		for i, n := range widths {
			if align[i] == left && n > shortest && (widest < 0 || n > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		total--
	}
	var b strings.Builder
	for _, row := range rows {
		writeRow(&b, align, widths, row)
	}
	return b.String()
}

func writeRow(b *strings.Builder, align string, widths []int, row []string) {
	line := ""
	for i, cell := range row {
		n, width := widths[i], utf8.RuneCountInString(cell)
		switch {
		case align[i] == text:
			indent := utf8.RuneCountInString(line) + 2
			cell = strings.Join(fill(cell, n), "\n"+strings.Repeat(" ", indent))
		case width > n && i == 0:
			b.WriteString("  " + cell + "\n")
			cell, width = "", 0
		case width > n:
			cell, width = Cut(cell, n-1)+"…", n
		}
		padding := strings.Repeat(" ", max(0, n-width))
		if align[i] == right {
			line += "  " + padding + cell
		} else {
			line += "  " + cell + padding
		}
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// fill breaks a text at spaces into lines of the given width. Longer words stay whole.
func fill(s string, width int) []string {
	lines := []string{""}
	for i, word := range strings.Split(s, " ") {
		last := &lines[len(lines)-1]
		switch {
		case i == 0:
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, word)
		default:
			*last += " " + word
		}
	}
	return lines
}
