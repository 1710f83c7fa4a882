package tokenizer

import "unicode/utf8"

// Options say how a text is encoded. The zero value parses special tokens in
// the text and adds none.
type Options struct {
	AddSpecial   bool // add what the post-processor adds, such as <|begin_of_text|>
	SplitSpecial bool // treat special tokens in the text as ordinary characters
}

// Encode returns the token ids of text.
func (t *Tokenizer) Encode(text string, o Options) []int32 {
	if !utf8.ValidString(text) {
		text = lossy([]byte(text))
	}
	ids := make([]int32, 0, len(text)/3+4)
	token := func(id int32) { ids = append(ids, id) }
	word := func(w string) { ids = t.bpe.append(ids, w) }
	plain := func(s string) { t.pre.each(s, word) }
	t.verbatim.split(text, o.SplitSpecial, func(s string) {
		t.normalized.split(t.normalize(s), o.SplitSpecial, plain, token)
	}, token)
	if p := t.post; p != nil && o.AddSpecial {
		around := make([]int32, 0, len(p.before)+len(ids)+len(p.after))
		ids = append(append(append(around, p.before...), ids...), p.after...)
	}
	return ids
}
