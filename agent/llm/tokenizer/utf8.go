package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// lossy returns b as a string with every maximal ill-formed subsequence
// replaced by U+FFFD: a truncated sequence counts once, up to the byte that
// makes it invalid (Unicode 3.9, table 3-7). strings.ToValidUTF8 would merge
// neighbours, and range over a string would split them.
func lossy(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var sb strings.Builder
	sb.Grow(len(b) + 8)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n, _ = illFormed(b)
			sb.WriteRune(utf8.RuneError)
		} else {
			sb.Write(b[:n])
		}
		b = b[n:]
	}
	return sb.String()
}

// illFormed measures the maximal ill-formed subsequence at the start of b,
// which does not start with a valid rune. open reports that b ended before
// the sequence went wrong, so more bytes could still make it valid.
func illFormed(b []byte) (n int, open bool) {
	lo, hi := byte(0x80), byte(0xBF)
	var need int
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		need = 1
	case c >= 0xE0 && c <= 0xEF:
		need = 2
		switch c {
		case 0xE0:
			lo = 0xA0
		case 0xED:
			hi = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		need = 3
		switch c {
		case 0xF0:
			lo = 0x90
		case 0xF4:
			hi = 0x8F
		}
	default:
		return 1, false
	}
	n = 1
	for ; need > 0; need-- {
		if n == len(b) {
			return n, true
		}
		if b[n] < lo || b[n] > hi {
			return n, false
		}
		lo, hi = 0x80, 0xBF
		n++
	}
	return n, false
}
