package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxID bounds token ids, so that a hostile file cannot ask for a huge table.
const maxID = 1 << 22

// file is the top level of tokenizer.json.
type file struct {
	Version       string          `json:"version"`
	Truncation    json.RawMessage `json:"truncation"`
	Padding       json.RawMessage `json:"padding"`
	AddedTokens   []addedJSON     `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         json.RawMessage `json:"model"`
}

type addedJSON struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// modelJSON is the model, whose vocabulary has a type V for reading or writing.
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

// Parse reads the bytes of a tokenizer.json and keeps them.
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
	if err := t.readModel(f.Model); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := t.readNormalizer(f.Normalizer, 0); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if err := t.readPreTokenizer(f.PreTokenizer); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if err := t.readPost(f.PostProcessor, 0); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	if err := readDecoder(f.Decoder); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	if err := t.readAdded(f.AddedTokens); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	if err := t.checkPost(); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
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
	// This component is large, so its type is not read in a pass of its own.
	var m modelJSON[vocabJSON]
	err := strict(raw, &m)
	if err != nil {
		if kind, typeErr := typeOf(raw); typeErr == nil {
			m.Type = kind
		}
	}
	// Files from before the library wrote the type are BPE if they have merges.
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

func (t *Tokenizer) readVocab(vocab vocabJSON) error {
	t.ids = vocab
	t.bpe.words = make(map[string]int32, len(vocab))
	highest := int32(-1)
	for _, id := range vocab {
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

func (t *Tokenizer) readAdded(list []addedJSON) error {
	highest := int32(-1)
	seen := make(map[string]bool, len(list))
	var byContent [2][]AddedToken // not normalized, normalized; specials first as the reference orders them
	t.special = make(map[int32]bool)
	for i, a := range list {
		if a.Content == "" {
			return fmt.Errorf("entry %d has no content", i)
		}
		if seen[a.Content] {
			return fmt.Errorf("%q occurs twice", a.Content)
		}
		seen[a.Content] = true
		// The library ignores the id in the file and gives a token that the
		// vocabulary lacks the next free id; a file with another id is an error.
		want, ok := t.ids[a.Content]
		if !ok {
			want = max(t.modelSize, highest+1)
		}
		if a.ID != int64(want) {
			return fmt.Errorf("%q has id %d, want %d after the vocabulary before it", a.Content, a.ID, want)
		}
		highest = max(highest, want)
		for int(want) >= len(t.tokens) {
			t.tokens, t.known = append(t.tokens, ""), append(t.known, false)
		}
		if t.known[want] && t.tokens[want] != a.Content {
			return fmt.Errorf("%q and %q both have id %d", a.Content, t.tokens[want], want)
		}
		t.tokens[want], t.known[want], t.ids[a.Content] = a.Content, true, want
		tok := AddedToken{want, a.Content, a.Special, a.SingleWord, a.LStrip, a.RStrip, a.Normalized}
		t.added = append(t.added, tok)
		if a.Special {
			t.special[want] = true
		}
		side := 0
		if a.Normalized {
			side = 1
		}
		byContent[side] = append(byContent[side], tok)
	}
	for side := range byContent {
		slices.SortStableFunc(byContent[side], func(a, b AddedToken) int {
			switch {
			case a.Special == b.Special:
				return 0
			case a.Special:
				return -1
			}
			return 1
		})
	}
	t.verbatim = newMatcher(byContent[0], func(a AddedToken) string { return a.Content })
	t.normalized = newMatcher(byContent[1], func(a AddedToken) string { return t.normalize(a.Content) })
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
