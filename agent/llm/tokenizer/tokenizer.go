package tokenizer

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"
)

// Tokenizer is a byte-level BPE tokenizer.
type Tokenizer struct {
	raw []byte

	ids       map[string]int32 // vocabulary and added tokens
	tokens    []string         // tokens by id
	known     []bool           // known[id] is false for an unused id
	bytes     []string         // bytes[id] is the decoded token
	modelSize int32            // size of the model's vocabulary, without added tokens

	nfc        bool
	verbatim   *matcher // added tokens matched before normalization
	normalized *matcher // added tokens matched after normalization
	pre        preTokenizer
	bpe        bpe
	post       *template // nil if the post-processor adds nothing
	added      []AddedToken
	special    map[int32]bool
}

// maxFile bounds the size of a tokenizer.json.
const maxFile = 256 << 20

// Load reads a tokenizer.json, or the tokenizer.json of a folder.
func Load(path string) (*Tokenizer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	if info.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
		if info, err = os.Stat(path); err != nil {
			return nil, fmt.Errorf("load tokenizer: %w", err)
		}
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("load tokenizer: %s has %d bytes, more than %d", path, info.Size(), maxFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	t, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer %s: %w", path, err)
	}
	return t, nil
}

// Size returns the highest id plus one: the minimum number of rows of an embedding.
func (t *Tokenizer) Size() int { return len(t.tokens) }

// TokenToID returns the id of a token spelled as in tokenizer.json.
func (t *Tokenizer) TokenToID(token string) (int32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// IDToToken returns the token of an id spelled as in tokenizer.json.
func (t *Tokenizer) IDToToken(id int32) (string, bool) {
	if id < 0 || int(id) >= len(t.tokens) || !t.known[id] {
		return "", false
	}
	return t.tokens[id], true
}

// Added returns the added tokens in the order of the file.
func (t *Tokenizer) Added() []AddedToken { return slices.Clone(t.added) }

// RawJSON returns the tokenizer.json of the tokenizer. The caller must not
// change it.
func (t *Tokenizer) RawJSON() []byte { return t.raw }

func (t *Tokenizer) normalize(s string) string {
	if t.nfc {
		return nfc(s)
	}
	return s
}

// Options configure Encode. By default, Encode parses special tokens in the
// text and adds none.
type Options struct {
	AddSpecial   bool // add the tokens of the post-processor, such as <|begin_of_text|>
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
