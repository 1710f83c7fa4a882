package main

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
)

// headingIDs gives headings the ids that GitHub gives them, so that a link works in both places: the text in lower case, with
// letters, digits, hyphens and underscores only, and hyphens for spaces. Repeated ids end with a number.
type headingIDs map[string]int

// Generate returns the id of a heading.
func (h headingIDs) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(value)))
	n := h[id]
	h[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

// Put reserves an id.
func (h headingIDs) Put(value []byte) { h[string(value)]++ }
