package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxID bounds token ids, so that a hostile file cannot cause a huge allocation.
const maxID = 1 << 22

// file is the top level of tokenizer.json.
type file struct {
	Version       string          `json:"version"`
	Truncation    json.RawMessage `json:"truncation"`
	Padding       json.RawMessage `json:"padding"`
	AddedTokens   []AddedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         json.RawMessage `json:"model"`
}

// modelJSON is the layout of the model. V is the type of vocab to read or write.
type modelJSON[V any] struct {
	Type         string     `json:"type"`
	Dropout      *float64   `json:"dropout"`
	UnkToken     *string    `json:"unk_token"`
	Prefix       *string    `json:"continuing_subword_prefix"`
	Suffix       *string    `json:"end_of_word_suffix"`
	FuseUnk      bool       `json:"fuse_unk"`
	ByteFallback bool       `json:"byte_fallback"`
	IgnoreMerges bool       `json:"ignore_merges"`
	Vocab        V          `json:"vocab"`
	Merges       mergesJSON `json:"merges"`
}

// mergesJSON is a list of merges in the form ["a", "b"] or in the older form "a b".
type mergesJSON [][2]string

// UnmarshalJSON reads a list of merges in one of the two forms.
func (m *mergesJSON) UnmarshalJSON(data []byte) error {
	var pairs [][]string
	if json.Unmarshal(data, &pairs) != nil {
		var lines []string
		if json.Unmarshal(data, &lines) != nil {
			return errors.New("merges are neither a list of strings nor a list of pairs of strings")
		}
		pairs = make([][]string, len(lines))
		for i, line := range lines {
			pairs[i] = strings.Split(line, " ")
		}
	}
	*m = make(mergesJSON, len(pairs))
	for i, pair := range pairs {
		if len(pair) != 2 {
			return fmt.Errorf("merges[%d]: %q is not a pair of tokens", i, pair)
		}
		(*m)[i] = [2]string(pair)
	}
	return nil
}

// Parse reads the bytes of a tokenizer.json and keeps them for RawJSON.
func Parse(data []byte) (*Tokenizer, error) {
	t, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	return t, nil
}

func parse(data []byte) (*Tokenizer, error) {
	var f file
	if err := strict(data, &f); err != nil {
		return nil, err
	}
	t := &Tokenizer{raw: slices.Clone(data)}
	for _, part := range []struct {
		name string
		read func() error
	}{
		{"model", func() error { return t.readModel(f.Model) }},
		{"normalizer", func() error { return t.readNormalizer(f.Normalizer) }},
		{"pre_tokenizer", func() error { return t.readPreTokenizer(f.PreTokenizer) }},
		{"post_processor", func() error { return t.readPost(f.PostProcessor) }},
		{"decoder", func() error { return readDecoder(f.Decoder) }},
		{"added_tokens", func() error { return t.readAdded(f.AddedTokens) }},
		{"post_processor", t.checkPost},
	} {
		if err := part.read(); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return t, nil
}

// strict decodes one JSON value and refuses keys that v does not have.
func strict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		// The error text of encoding/json is `json: unknown field "x"`.
		if key, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return fmt.Errorf("option %s is not supported", key)
		}
		return err
	}
	if d.More() {
		return errors.New("text after the end of the JSON value")
	}
	return nil
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// typeOf reads the "type" key that every component has.
func typeOf(raw json.RawMessage) (string, error) {
	var c typeJSON
	if err := json.Unmarshal(raw, &c); err != nil {
		return "", err
	}
	return c.Type, nil
}

func (t *Tokenizer) readModel(raw json.RawMessage) error {
	if absent(raw) {
		return errors.New("missing")
	}
	// The model is large, so it is decoded once. The type is decoded alone only after an error.
	var m modelJSON[map[string]int32]
	err := strict(raw, &m)
	if err != nil {
		if kind, typeErr := typeOf(raw); typeErr == nil {
			m.Type = kind
		}
	}
	// Older files have no type. They are BPE if they have merges.
	if m.Type != "BPE" && m.Type != "" {
		return fmt.Errorf("type %q is not supported, only BPE is", m.Type)
	}
	if err != nil {
		return err
	}
	switch {
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("dropout %v is not supported", *m.Dropout)
	case m.Prefix != nil && *m.Prefix != "":
		return fmt.Errorf("continuing_subword_prefix %q is not supported", *m.Prefix)
	case m.Suffix != nil && *m.Suffix != "":
		return fmt.Errorf("end_of_word_suffix %q is not supported", *m.Suffix)
	case m.ByteFallback:
		return errors.New("byte_fallback is not supported")
	case len(m.Vocab) == 0:
		return errors.New("vocab is missing or empty")
	case m.Merges == nil:
		return errors.New("merges are missing")
	}
	if err := t.readVocab(m.Vocab); err != nil {
		return err
	}
	t.bpe.ignoreMerges, t.bpe.fuseUnk, t.bpe.unk = m.IgnoreMerges, m.FuseUnk, -1
	if m.UnkToken != nil {
		id, ok := t.ids[*m.UnkToken]
		if !ok {
			return fmt.Errorf("unk_token %q is not in the vocabulary", *m.UnkToken)
		}
		t.bpe.unk = id
	}
	return t.readMerges(m.Merges)
}

func (t *Tokenizer) readVocab(vocab map[string]int32) error {
	t.ids = vocab
	t.bpe.words = make(map[string]int32, len(vocab))
	highest := int32(-1)
	for token, id := range vocab {
		if id < 0 || id >= maxID {
			return fmt.Errorf("vocab: token %q has id %d, outside 0 to %d", token, id, maxID-1)
		}
		highest = max(highest, id)
	}
	t.tokens = make([]string, highest+1)
	t.known = make([]bool, highest+1)
	for token, id := range t.ids {
		if t.known[id] {
			return fmt.Errorf("vocab: %q and %q both have id %d", min(token, t.tokens[id]), max(token, t.tokens[id]), id)
		}
		t.tokens[id], t.known[id] = token, true
		if raw, ok := fromAlphabet(token); ok {
			t.bpe.words[string(raw)] = id
		}
	}
	for b := range 256 {
		t.bpe.bytes[b] = -1
		if id, ok := t.bpe.words[string([]byte{byte(b)})]; ok {
			t.bpe.bytes[b] = id
		}
	}
	t.modelSize = int32(len(vocab))
	return nil
}

func (t *Tokenizer) readMerges(merges mergesJSON) error {
	t.bpe.merges = make(map[uint64]merge, len(merges))
	for i, m := range merges {
		var ids [3]int32
		for j, s := range [3]string{m[0], m[1], m[0] + m[1]} {
			id, ok := t.ids[s]
			if !ok {
				return fmt.Errorf("merges[%d]: %q is not in the vocabulary", i, s)
			}
			ids[j] = id
		}
		t.bpe.merges[pair(ids[0], ids[1])] = merge{int32(i), ids[2]}
	}
	return nil
}

func (t *Tokenizer) readAdded(list []AddedToken) error {
	highest := int32(-1)
	seen := make(map[string]bool, len(list))
	t.added = list
	t.special = make(map[int32]bool)
	for i, a := range list {
		if a.Content == "" {
			return fmt.Errorf("entry %d has no content", i)
		}
		if seen[a.Content] {
			return fmt.Errorf("%q occurs twice", a.Content)
		}
		seen[a.Content] = true
		// The reference ignores the ids in the file: a token outside the vocabulary
		// gets the next free id. Parse returns an error if the file has another id.
		want, ok := t.ids[a.Content]
		if !ok {
			want = max(t.modelSize, highest+1)
		}
		if a.ID != want {
			return fmt.Errorf("%q has id %d, want %d: its id in the vocabulary, or else the next free id", a.Content, a.ID, want)
		}
		highest = max(highest, want)
		for int(want) >= len(t.tokens) {
			t.tokens, t.known = append(t.tokens, ""), append(t.known, false)
		}
		if t.known[want] && t.tokens[want] != a.Content {
			return fmt.Errorf("%q and %q both have id %d", a.Content, t.tokens[want], want)
		}
		t.tokens[want], t.known[want], t.ids[a.Content] = a.Content, true, want
		if a.Special {
			t.special[want] = true
		}
	}
	t.verbatim = newMatcher(matchOrder(list, false), func(a AddedToken) string { return a.Content })
	t.normalized = newMatcher(matchOrder(list, true), func(a AddedToken) string { return t.normalize(a.Content) })
	t.bytes = make([]string, len(t.tokens))
	for id, token := range t.tokens {
		if raw, ok := fromAlphabet(token); ok {
			t.bytes[id] = string(raw)
		} else {
			t.bytes[id] = token
		}
	}
	return nil
}

// matchOrder returns the tokens whose field Normalized has the given value, with the
// special tokens first, as in Hugging Face's tokenizers.
func matchOrder(list []AddedToken, normalized bool) []AddedToken {
	var special, other []AddedToken
	for _, a := range list {
		switch {
		case a.Normalized != normalized:
		case a.Special:
			special = append(special, a)
		default:
			other = append(other, a)
		}
	}
	return append(special, other...)
}
