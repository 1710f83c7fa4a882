package tokenizer

import (
	"sort"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// nfc is Unicode normalization form C as the reference computes it. x/text
// differs in two ways: it knows newer combining marks, and it breaks runs of
// more than 30 of them with U+034F (UAX 15, stream-safe text). Text with
// either takes the slow way.
func nfc(s string) string {
	if norm.NFC.QuickSpanString(s) == len(s) && !needsSlowNFC(s) {
		return s
	}
	if !needsSlowNFC(s) {
		return norm.NFC.String(s)
	}
	return slowNFC(s)
}

// streamSafe is the length of a run at which x/text starts to break it, minus the
// marks that one decomposed rune may add.
const streamSafe = 24

func needsSlowNFC(s string) bool {
	run := 0
	for _, r := range s {
		if r < 0x300 {
			run = 0
			continue
		}
		if unicode.Is(newCombining, r) {
			return true
		}
		if combiningClass(r) == 0 {
			run = 0
			continue
		}
		if run++; run >= streamSafe {
			return true
		}
	}
	return false
}

func combiningClass(r rune) uint8 {
	if r < 0x300 || unicode.Is(newCombining, r) {
		return 0
	}
	return norm.NFC.PropertiesString(string(r)).CCC()
}

// slowNFC decomposes, orders and composes (UAX 15, section 1.3; Unicode 3.11).
func slowNFC(s string) string {
	runes := make([]rune, 0, len(s))
	for _, r := range s {
		if d := norm.NFD.PropertiesString(string(r)).Decomposition(); d != nil && !unicode.Is(newCombining, r) {
			runes = append(runes, []rune(string(d))...)
		} else {
			runes = appendHangul(runes, r)
		}
	}
	classes := make([]uint8, len(runes))
	for i, r := range runes {
		classes[i] = combiningClass(r)
	}
	for i := 0; i < len(runes); {
		j := i + 1
		if classes[i] != 0 {
			for j < len(runes) && classes[j] != 0 {
				j++
			}
			sort.Stable(byClass{runes[i:j], classes[i:j]})
		}
		i = j
	}
	return compose(runes, classes)
}

// appendHangul appends a Hangul syllable as its jamo (Unicode 3.12), and other
// runes unchanged.
func appendHangul(dst []rune, r rune) []rune {
	const base, last, vCount, tCount = 0xAC00, 0xD7A3, 21, 28
	if r < base || r > last {
		return append(dst, r)
	}
	i := r - base
	dst = append(dst, 0x1100+i/(vCount*tCount), 0x1161+i%(vCount*tCount)/tCount)
	if t := i % tCount; t != 0 {
		dst = append(dst, 0x11A7+t)
	}
	return dst
}

func compose(runes []rune, classes []uint8) string {
	out := make([]rune, 0, len(runes))
	starter := -1 // index in out of the last starter
	last := 0     // class of the rune before, as far as it blocks
	for i, r := range runes {
		class := int(classes[i])
		if starter >= 0 {
			adjacent := len(out) == starter+1
			if adjacent || last < class && last != 0 {
				if c, ok := composePair(out[starter], r); ok {
					out[starter] = c
					continue
				}
			}
		}
		if class == 0 {
			starter, last = len(out), 0
		} else {
			last = class
		}
		out = append(out, r)
	}
	return string(out)
}

// composePair returns the primary composite of a and b, taken from x/text.
func composePair(a, b rune) (rune, bool) {
	if unicode.Is(newCombining, a) || unicode.Is(newCombining, b) {
		return 0, false
	}
	var sb strings.Builder
	sb.WriteRune(a)
	sb.WriteRune(b)
	c := []rune(norm.NFC.String(sb.String()))
	if len(c) != 1 || unicode.Is(newCombining, c[0]) {
		return 0, false
	}
	return c[0], true
}

// byClass sorts runes by combining class and keeps the order among equals.
type byClass struct {
	runes   []rune
	classes []uint8
}

func (b byClass) Len() int           { return len(b.runes) }
func (b byClass) Less(i, j int) bool { return b.classes[i] < b.classes[j] }
func (b byClass) Swap(i, j int) {
	b.runes[i], b.runes[j] = b.runes[j], b.runes[i]
	b.classes[i], b.classes[j] = b.classes[j], b.classes[i]
}
