package tokenizer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// GGUFVocab is the tokenizer part of a GGUF file's metadata (tokenizer.ggml.*).
type GGUFVocab struct {
	Model              string // "gpt2" is byte-level BPE
	Pre                string // name of the pre-tokenizer
	Tokens             []string
	TokenTypes         []int32
	Merges             []string
	BOS, EOS, EOT, Pad int32 // -1 where the file says nothing
	AddBOS             bool
}

// Token types of GGUF (llama.cpp, llama_token_type).
const (
	ggufNormal      = 1
	ggufUnknown     = 2
	ggufControl     = 3
	ggufUserDefined = 4
	ggufUnused      = 5
)

// Patterns of the published tokenizer.json files.
const (
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Pattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// ggufPre says what the values of tokenizer.ggml.pre stand for, as far as the
// original tokenizer.json is known here. llama.cpp knows more names, some of
// which it treats alike although their originals differ.
var ggufPre = map[string]func(*recipe){
	"llama-bpe": llama3Pre,
	"llama3":    llama3Pre,
	"llama-v3":  llama3Pre,
	"qwen2": func(r *recipe) {
		r.pre, r.nfc = []any{splitOn(qwen2Pattern), byteLevelLayout(false)}, true
	},
	"smollm": func(r *recipe) {
		r.pre = []any{digitsLayout{"Digits", true}, byteLevelLayout(true)}
	},
	"gpt-2": func(r *recipe) { r.pre = []any{byteLevelLayout(true)} },
}

// ggufAddsBOS are the pre-tokenizers with which llama.cpp starts a text with
// the BOS token where the file has no add_bos_token (llama-vocab.cpp, the
// branch of these names).
var ggufAddsBOS = []string{"llama-bpe", "llama3", "llama-v3"}

func llama3Pre(r *recipe) {
	r.pre, r.ignoreMerges = []any{splitOn(llama3Pattern), byteLevelLayout(false)}, true
}

// FromGGUF makes a tokenizer from the vocabulary in a GGUF file. Its RawJSON
// is a tokenizer.json that gives the same ids. Unused tokens at the end, which
// converters add as padding, are left out.
func FromGGUF(v GGUFVocab) (*Tokenizer, error) {
	t, err := fromGGUF(v)
	if err != nil {
		return nil, fmt.Errorf("GGUF tokenizer: %w", err)
	}
	return t, nil
}

func fromGGUF(v GGUFVocab) (*Tokenizer, error) {
	if v.Model != "gpt2" {
		return nil, fmt.Errorf(`tokenizer.ggml.model %q is not supported, only "gpt2" (byte-level BPE) is`, v.Model)
	}
	pre, ok := ggufPre[v.Pre]
	if !ok {
		return nil, fmt.Errorf("tokenizer.ggml.pre %q is not known; known are %s",
			v.Pre, strings.Join(slices.Sorted(maps.Keys(ggufPre)), ", "))
	}
	if len(v.Tokens) != len(v.TokenTypes) {
		return nil, fmt.Errorf("%d tokens but %d token types", len(v.Tokens), len(v.TokenTypes))
	}
	n := len(v.Tokens)
	for n > 0 && v.TokenTypes[n-1] == ggufUnused {
		n--
	}
	if n == 0 {
		return nil, errors.New("there are no tokens")
	}
	r := &recipe{tokens: slices.Clone(v.Tokens[:n]), bos: -1}
	pre(r)
	seen := make(map[string]int, n)
	for id, token := range r.tokens {
		if first, twice := seen[token]; twice {
			return nil, fmt.Errorf("token %q is there twice, as %d and %d", token, first, id)
		}
		seen[token] = id
		a := AddedToken{ID: int32(id), Content: token}
		switch kind := v.TokenTypes[id]; kind {
		case ggufNormal, ggufUnused:
			continue
		case ggufUnknown, ggufControl:
			a.Special = true
		case ggufUserDefined:
		default:
			return nil, fmt.Errorf("token %d %q has type %d, which a byte-level vocabulary does not use", id, token, kind)
		}
		r.added = append(r.added, a)
	}
	for i, m := range v.Merges {
		left, right, ok := strings.Cut(m, " ")
		if !ok {
			return nil, fmt.Errorf("tokenizer.ggml.merges[%d]: %q is not two tokens with a space between", i, m)
		}
		r.merges = append(r.merges, [2]string{left, right})
	}
	for name, id := range map[string]int32{"bos": v.BOS, "eos": v.EOS, "eot": v.EOT, "padding": v.Pad} {
		if id < -1 || int(id) >= len(v.Tokens) {
			return nil, fmt.Errorf("the %s token's id is %d, outside the vocabulary", name, id)
		}
	}
	if v.AddBOS {
		if v.BOS < 0 || int(v.BOS) >= n {
			return nil, fmt.Errorf("texts are to start with the BOS token (add_bos_token, or the way of tokenizer.ggml.pre %q without it), but there is no bos_token_id", v.Pre)
		}
		r.bos = v.BOS
	}
	return r.build()
}
