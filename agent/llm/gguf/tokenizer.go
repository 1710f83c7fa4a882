package gguf

// The tokenizer in a GGUF file's metadata (llama.cpp, docs of tokenizer.ggml.*).

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/agent/llm/tokenizer"
)

// schemes lists the values of tokenizer.ggml.pre for which the published
// tokenizer.json is known. llama.cpp knows more values, but treats some of them
// alike although the tokenizer.json files of their models differ.
var schemes = map[string]tokenizer.Scheme{
	"llama-bpe": tokenizer.Llama3, "llama3": tokenizer.Llama3, "llama-v3": tokenizer.Llama3,
	"qwen2": tokenizer.Qwen2, "smollm": tokenizer.SmolLM, "gpt-2": tokenizer.GPT2,
}

// addsBOS lists the values of tokenizer.ggml.pre for which llama.cpp begins a
// text with the BOS token if the file has no add_bos_token (llama-vocab.cpp).
var addsBOS = []string{"llama-bpe", "llama3", "llama-v3"}

// Token types of GGUF (llama.cpp, llama_token_type).
const (
	typeNormal      = 1
	typeUnknown     = 2
	typeControl     = 3
	typeUserDefined = 4
	typeUnused      = 5
)

// vocabulary holds the keys below tokenizer.ggml.
type vocabulary struct {
	model         string // "gpt2" is byte-level BPE
	pre           string // name of the pre-tokenizer
	tokens        []string
	types         []int32
	merges        []string
	bos, eos, pad int32 // -1: not in the file
	addBOS        bool
}

// Tokenizer returns the tokenizer in the metadata, with the special tokens and
// the chat template. Its RawJSON is a tokenizer.json that gives the same ids.
// Unused tokens at the end, which converters add as padding, are omitted.
func (m *Metadata) Tokenizer() (*tokenizer.Tokenizer, tokenizer.Config, error) {
	v, err := m.vocabulary()
	if err != nil {
		return nil, tokenizer.Config{}, err
	}
	tok, err := v.tokenizer()
	if err != nil {
		return nil, tokenizer.Config{}, fmt.Errorf("GGUF tokenizer: %w", err)
	}
	var c tokenizer.Config // a token that the file does not have is ""
	c.BOS, _ = tok.IDToToken(v.bos)
	c.EOS, _ = tok.IDToToken(v.eos)
	c.Pad, _ = tok.IDToToken(v.pad)
	if m.Has("tokenizer.chat_template") {
		c.ChatTemplate, err = m.String("tokenizer.chat_template")
		c.Templates = map[string]string{"default": c.ChatTemplate}
	}
	if err != nil || !m.Has("tokenizer.chat_templates") {
		return tok, c, err
	}
	names, err := m.Strings("tokenizer.chat_templates")
	for _, name := range names {
		if err != nil {
			break
		}
		if c.Templates == nil {
			c.Templates = map[string]string{}
		}
		c.Templates[name], err = m.String("tokenizer.chat_template." + name)
	}
	return tok, c, err
}

// vocabulary reads the keys below tokenizer.ggml.
func (m *Metadata) vocabulary() (v vocabulary, err error) {
	const prefix = "tokenizer.ggml."
	var errs [6]error
	v.model, errs[0] = m.String(prefix + "model")
	v.pre, errs[1] = m.String(prefix + "pre")
	v.tokens, errs[2] = m.Strings(prefix + "tokens")
	v.types, errs[3] = m.Int32s(prefix + "token_type")
	v.merges, errs[4] = m.Strings(prefix + "merges")
	v.addBOS = slices.Contains(addsBOS, v.pre)
	if m.Has(prefix + "add_bos_token") {
		v.addBOS, errs[5] = m.Bool(prefix + "add_bos_token")
	}
	if err := errors.Join(errs[:]...); err != nil {
		return v, err
	}
	for _, special := range []struct {
		name string
		id   *int32
	}{{"bos", &v.bos}, {"eos", &v.eos}, {"padding", &v.pad}} {
		key, id := prefix+special.name+"_token_id", -1
		if m.Has(key) {
			if id, err = m.Int(key); err == nil && (id < -1 || id >= len(v.tokens)) {
				err = fmt.Errorf("gguf metadata %q: id %d is outside the vocabulary of %d tokens", key, id, len(v.tokens))
			}
			if err != nil {
				return v, err
			}
		}
		*special.id = int32(id)
	}
	return v, nil
}

func (v *vocabulary) tokenizer() (*tokenizer.Tokenizer, error) {
	if v.model != "gpt2" {
		return nil, fmt.Errorf(`tokenizer.ggml.model %q is not supported, only "gpt2" (byte-level BPE) is`, v.model)
	}
	scheme, ok := schemes[v.pre]
	if !ok {
		return nil, fmt.Errorf("tokenizer.ggml.pre %q is not known; known are %s", v.pre, strings.Join(slices.Sorted(maps.Keys(schemes)), ", "))
	}
	if len(v.tokens) != len(v.types) {
		return nil, fmt.Errorf("%d tokens but %d token types", len(v.tokens), len(v.types))
	}
	n := len(v.tokens)
	for n > 0 && v.types[n-1] == typeUnused {
		n--
	}
	if n == 0 {
		return nil, errors.New("the vocabulary has no tokens")
	}
	out := &tokenizer.Vocabulary{Tokens: v.tokens[:n], Scheme: scheme, BOS: -1}
	seen := make(map[string]int, n)
	for id, token := range out.Tokens {
		if first, twice := seen[token]; twice {
			return nil, fmt.Errorf("token %q has two ids, %d and %d", token, first, id)
		}
		seen[token] = id
		a := tokenizer.AddedToken{ID: int32(id), Content: token}
		switch kind := v.types[id]; kind {
		case typeNormal, typeUnused:
			continue
		case typeUnknown, typeControl:
			a.Special = true
		case typeUserDefined:
		default:
			return nil, fmt.Errorf("token %d %q has type %d, which a byte-level vocabulary does not use", id, token, kind)
		}
		out.Added = append(out.Added, a)
	}
	for i, m := range v.merges {
		left, right, ok := strings.Cut(m, " ")
		if !ok {
			return nil, fmt.Errorf("tokenizer.ggml.merges[%d]: %q does not consist of two tokens separated by a space", i, m)
		}
		out.Merges = append(out.Merges, [2]string{left, right})
	}
	if v.addBOS {
		if v.bos < 0 || int(v.bos) >= n {
			return nil, fmt.Errorf("texts begin with the BOS token (add_bos_token, or the default of tokenizer.ggml.pre %q), but bos_token_id is missing", v.pre)
		}
		out.BOS = v.bos
	}
	return out.Build()
}
