package tokenizer

import (
	"cmp"
	"slices"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// nfc returns Unicode normalization form C as Hugging Face's tokenizers computes it.
// x/text differs in two ways: it knows newer combining marks, and it inserts U+034F
// into runs of more than 30 combining marks (UAX 15, stream-safe text). slowNFC
// normalizes texts that contain such marks or such runs.
func nfc(s string) string {
	if needsSlowNFC(s) {
		return slowNFC(s)
	}
	return norm.NFC.String(s)
}

// streamSafe is the length of a run of combining marks from which x/text may insert
// U+034F, minus the number of marks that one decomposed rune may add.
const streamSafe = 24

func needsSlowNFC(s string) bool {
	run := 0
	for _, r := range s {
		switch {
		case r >= 0x300 && unicode.Is(newCombining, r):
			return true
		case combiningClass(r) == 0:
			run = 0
		default:
			if run++; run >= streamSafe {
				return true
			}
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

// slowNFC decomposes, orders and composes s (UAX 15, section 1.3; Unicode 3.11).
func slowNFC(s string) string {
	runes := make([]rune, 0, len(s))
	for _, r := range s {
		if unicode.Is(newCombining, r) {
			runes = append(runes, r)
		} else {
			runes = append(runes, []rune(norm.NFD.String(string(r)))...)
		}
	}
	marks := make([]mark, len(runes))
	for i, r := range runes {
		marks[i] = mark{r, int(combiningClass(r))}
	}
	for i := 0; i < len(marks); {
		j := i + 1
		if marks[i].class != 0 {
			for j < len(marks) && marks[j].class != 0 {
				j++
			}
			slices.SortStableFunc(marks[i:j], func(a, b mark) int { return cmp.Compare(a.class, b.class) })
		}
		i = j
	}
	return compose(marks)
}

// mark is a rune with its combining class, 0 for a starter.
type mark struct {
	r     rune
	class int
}

// compose replaces each pair of a starter and a later rune by the composite of the pair, if it exists.
func compose(marks []mark) string {
	out := make([]rune, 0, len(marks))
	starter := -1 // index of the last starter in out
	last := 0     // combining class of the previous rune
	for _, m := range marks {
		if starter >= 0 {
			adjacent := len(out) == starter+1
			if adjacent || last < m.class && last != 0 {
				if c, ok := composePair(out[starter], m.r); ok {
					out[starter] = c
					continue
				}
			}
		}
		if m.class == 0 {
			starter, last = len(out), 0
		} else {
			last = m.class
		}
		out = append(out, m.r)
	}
	return string(out)
}

// composePair returns the primary composite of a and b, taken from x/text.
func composePair(a, b rune) (rune, bool) {
	if unicode.Is(newCombining, a) || unicode.Is(newCombining, b) {
		return 0, false
	}
	c := []rune(norm.NFC.String(string([]rune{a, b})))
	if len(c) != 1 || unicode.Is(newCombining, c[0]) {
		return 0, false
	}
	return c[0], true
}
