package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Decode returns the text of ids with ill-formed bytes replaced by U+FFFD. As in
// Hugging Face's tokenizers, an id outside the vocabulary decodes to "": models pad their
// vocabulary and may sample such an id. Spaces are not cleaned up.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	out := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		out = append(out, t.piece(id, skipSpecial)...)
	}
	return lossy(out)
}

func (t *Tokenizer) piece(id int32, skipSpecial bool) string {
	if id < 0 || int(id) >= len(t.bytes) || skipSpecial && t.special[id] {
		return ""
	}
	return t.bytes[id]
}

// Bytes returns the bytes of a token, which may be a part of a rune, or nil for an id
// outside the vocabulary.
func (t *Tokenizer) Bytes(id int32) []byte { return []byte(t.piece(id, false)) }

// StreamDecoder decodes ids one at a time. It buffers the bytes of an
// incomplete rune, so that the joined results of Next and a final Flush equal
// Decode of all ids.
type StreamDecoder struct {
	t           *Tokenizer
	skipSpecial bool
	pending     []byte
}

// Stream starts a StreamDecoder.
func (t *Tokenizer) Stream(skipSpecial bool) *StreamDecoder {
	return &StreamDecoder{t: t, skipSpecial: skipSpecial}
}

// Next returns the text that id completes: usually the token's text, or "" if
// the token ends inside a rune.
func (d *StreamDecoder) Next(id int32) string {
	d.pending = append(d.pending, d.t.piece(id, d.skipSpecial)...)
	n := complete(d.pending)
	text := lossy(d.pending[:n])
	d.pending = append(d.pending[:0], d.pending[n:]...)
	return text
}

// Flush returns the text of the buffered bytes, as Decode does at the end of the ids.
func (d *StreamDecoder) Flush() string {
	text := lossy(d.pending)
	d.pending = d.pending[:0]
	return text
}

// complete returns the length of b without an incomplete rune at the end.
func complete(b []byte) int {
	for i := max(0, len(b)-utf8.UTFMax+1); i < len(b); i++ {
		if utf8.RuneStart(b[i]) && !utf8.FullRune(b[i:]) {
			return i
		}
	}
	return len(b)
}

// lossy returns b as a string with every maximal ill-formed subsequence
// replaced by U+FFFD: a truncated sequence counts once, up to the byte that
// makes it invalid (Unicode 3.9, table 3-7). strings.ToValidUTF8 would merge
// neighbours, and range over a string would split them.
func lossy(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var sb strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError {
			for n < len(b) && !utf8.FullRune(b[:n+1]) {
				n++
			}
		}
		sb.WriteRune(r)
		b = b[n:]
	}
	return sb.String()
}
