package tokenizer

// The byte-level alphabet of GPT-2: every byte has a printable rune, so that a
// vocabulary of strings can hold any byte sequence. Printable Latin-1 bytes
// stand for themselves; the other 68, in order, are U+0100 and up.
// (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", 2.2.)
var (
	byteRune = makeByteRunes()
	runeByte = makeRuneBytes()
)

func makeByteRunes() (t [256]rune) {
	next := rune(256)
	for b := range rune(256) {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			t[b] = b
		} else {
			t[b] = next
			next++
		}
	}
	return t
}

func makeRuneBytes() map[rune]byte {
	m := make(map[rune]byte, 256)
	for b, r := range byteRune {
		m[r] = byte(b)
	}
	return m
}

// fromAlphabet returns the bytes that s spells; ok is false if s has a rune
// outside the alphabet.
func fromAlphabet(s string) (raw []byte, ok bool) {
	raw = make([]byte, 0, len(s))
	for _, r := range s {
		b, in := runeByte[r]
		if !in {
			return nil, false
		}
		raw = append(raw, b)
	}
	return raw, true
}
