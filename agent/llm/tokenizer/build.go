package tokenizer

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// recipe is what a tokenizer.json of our own is written from.
type recipe struct {
	tokens       []string // by id, spelled in the byte-level alphabet
	merges       [][2]string
	added        []AddedToken
	pre          []any
	nfc          bool
	ignoreMerges bool
	bos          int32 // added by the post-processor; -1 for none
}

// layouts of pre-tokenizers.
type (
	splitLayout struct {
		Type     string            `json:"type"`
		Pattern  map[string]string `json:"pattern"`
		Behavior string            `json:"behavior"`
		Invert   bool              `json:"invert"`
	}
	digitsLayout struct {
		Type       string `json:"type"`
		Individual bool   `json:"individual_digits"`
	}
	sequenceLayout struct {
		Type  string `json:"type"`
		Steps []any  `json:"pretokenizers"`
	}
)

func splitOn(regex string) splitLayout {
	return splitLayout{"Split", map[string]string{"Regex": regex}, "Isolated", false}
}

func byteLevelLayout(useRegex bool) byteLevelJSON {
	return byteLevelJSON{Type: "ByteLevel", TrimOffsets: true, UseRegex: useRegex}
}

// build writes the tokenizer.json of r and reads it back, so that a tokenizer
// made here and one loaded from the saved file are the same thing.
func (r *recipe) build() (*Tokenizer, error) {
	vocab := make(orderedVocab, len(r.tokens))
	copy(vocab, r.tokens)
	added := make([]addedJSON, len(r.added))
	for i, a := range r.added {
		added[i] = addedJSON{int64(a.ID), a.Content, a.SingleWord, a.LStrip, a.RStrip, a.Normalized, a.Special}
	}
	doc := struct {
		Version       string      `json:"version"`
		Truncation    any         `json:"truncation"`
		Padding       any         `json:"padding"`
		AddedTokens   []addedJSON `json:"added_tokens"`
		Normalizer    any         `json:"normalizer"`
		PreTokenizer  any         `json:"pre_tokenizer"`
		PostProcessor any         `json:"post_processor"`
		Decoder       any         `json:"decoder"`
		Model         any         `json:"model"`
	}{
		Version: "1.0", AddedTokens: added,
		PreTokenizer: sequenceLayout{"Sequence", r.pre}, Decoder: byteLevelLayout(true),
		PostProcessor: r.post(),
		Model: struct {
			Type         string       `json:"type"`
			Dropout      any          `json:"dropout"`
			UnkToken     any          `json:"unk_token"`
			Prefix       any          `json:"continuing_subword_prefix"`
			Suffix       any          `json:"end_of_word_suffix"`
			FuseUnk      bool         `json:"fuse_unk"`
			ByteFallback bool         `json:"byte_fallback"`
			IgnoreMerges bool         `json:"ignore_merges"`
			Vocab        orderedVocab `json:"vocab"`
			Merges       [][2]string  `json:"merges"`
		}{Type: "BPE", IgnoreMerges: r.ignoreMerges, Vocab: vocab, Merges: r.merges},
	}
	if r.nfc {
		doc.Normalizer = map[string]string{"type": "NFC"}
	}
	data, err := marshal(doc)
	if err != nil {
		return nil, err
	}
	return Parse(data)
}

func (r *recipe) post() any {
	if r.bos < 0 {
		return nil
	}
	type ref struct {
		ID     string `json:"id"`
		TypeID int    `json:"type_id"`
	}
	bos := r.tokens[r.bos]
	special := func(typeID int) any { return map[string]ref{"SpecialToken": {bos, typeID}} }
	text := func(id string, typeID int) any { return map[string]ref{"Sequence": {id, typeID}} }
	return struct {
		Type          string `json:"type"`
		Single        []any  `json:"single"`
		Pair          []any  `json:"pair"`
		SpecialTokens any    `json:"special_tokens"`
	}{
		"TemplateProcessing", []any{special(0), text("A", 0)}, []any{special(0), text("A", 0), special(1), text("B", 1)},
		map[string]any{bos: map[string]any{"id": bos, "ids": []int32{r.bos}, "tokens": []string{bos}}},
	}
}

// orderedVocab is a vocabulary written in the order of its ids.
type orderedVocab []string

// MarshalJSON writes the object {token: id, …}.
func (v orderedVocab) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for id, token := range v {
		if id > 0 {
			out.WriteByte(',')
		}
		key, err := marshal(token)
		if err != nil {
			return nil, err
		}
		out.Write(key)
		out.WriteByte(':')
		out.WriteString(strconv.Itoa(id))
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// marshal is json.Marshal without HTML escapes.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
