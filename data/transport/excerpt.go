package transport

import "strings"

// maxExcerpt bounds the bytes of an excerpt.
const maxExcerpt = 400

// Excerpt returns the start of a server's reply as valid UTF-8, for errors.
func Excerpt(reply string) string {
	s := strings.TrimSpace(strings.ToValidUTF8(reply, "\uFFFD"))
	if len(s) <= maxExcerpt {
		return s
	}
	return strings.ToValidUTF8(s[:maxExcerpt], "") + "…"
}
