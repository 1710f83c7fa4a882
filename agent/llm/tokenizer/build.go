package tokenizer

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Vocabulary describes a byte-level BPE tokenizer that has no tokenizer.json.
type Vocabulary struct {
	Tokens []string    // by id, spelled in the byte-level alphabet
	Merges [][2]string // in the order of their ranks
	Added  []AddedToken
	Scheme Scheme
	BOS    int32 // id of the token that begins every text; -1 for none
}

// Scheme configures the steps before BPE, as the published tokenizer.json of a
// family does.
type Scheme struct {
	pre          []any // pre_tokenizer: the steps of a Sequence
	nfc          bool  // normalizer
	ignoreMerges bool  // a word that is a token needs no merges
}

// The supported schemes.
var (
	GPT2   = Scheme{pre: []any{byteLevelLayout(true)}}
	SmolLM = Scheme{pre: []any{digitsLayout{"Digits", true}, byteLevelLayout(true)}}
	Llama3 = Scheme{pre: []any{splitOn(llama3Pattern), byteLevelLayout(false)}, ignoreMerges: true}
	Qwen2  = Scheme{pre: []any{splitOn(qwen2Pattern), byteLevelLayout(false)}, nfc: true}
)

const (
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Pattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// Layouts of pre-tokenizers.
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

// Build makes the tokenizer of a vocabulary. It writes its tokenizer.json and
// reads that, so that a saved and reopened tokenizer is the same.
func (v *Vocabulary) Build() (*Tokenizer, error) {
	added := make([]addedJSON, len(v.Added))
	for i, a := range v.Added {
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
		PreTokenizer: sequenceLayout{"Sequence", v.Scheme.pre}, Decoder: byteLevelLayout(true),
		PostProcessor: v.post(),
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
		}{Type: "BPE", IgnoreMerges: v.Scheme.ignoreMerges, Vocab: v.Tokens, Merges: v.Merges},
	}
	if v.Scheme.nfc {
		doc.Normalizer = map[string]string{"type": "NFC"}
	}
	data, err := marshal(doc)
	if err != nil {
		return nil, err
	}
	return Parse(data)
}

// post returns the post-processor that adds the BOS token.
func (v *Vocabulary) post() any {
	if v.BOS < 0 {
		return nil
	}
	type ref struct {
		ID     string `json:"id"`
		TypeID int    `json:"type_id"`
	}
	bos := v.Tokens[v.BOS]
	special := func(typeID int) any { return map[string]ref{"SpecialToken": {bos, typeID}} }
	text := func(id string, typeID int) any { return map[string]ref{"Sequence": {id, typeID}} }
	return struct {
		Type          string `json:"type"`
		Single        []any  `json:"single"`
		Pair          []any  `json:"pair"`
		SpecialTokens any    `json:"special_tokens"`
	}{
		"TemplateProcessing", []any{special(0), text("A", 0)}, []any{special(0), text("A", 0), special(1), text("B", 1)},
		map[string]any{bos: map[string]any{"id": bos, "ids": []int32{v.BOS}, "tokens": []string{bos}}},
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
