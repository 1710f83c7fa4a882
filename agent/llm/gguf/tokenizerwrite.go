package gguf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/openmanus/openmanus/agent/llm/tokenizer"
)

// ErrNoPreTokenizer is the cause of the error of TokenizerPairs if GGUF has no name
// for the way in which the tokenizer divides texts into words.
var ErrNoPreTokenizer = errors.New("llama.cpp has no name for the pre-tokenizer of this tokenizer.json")

// preNames holds the value of tokenizer.ggml.pre for each scheme.
var preNames = map[tokenizer.Scheme]string{
	tokenizer.Llama3: "llama-bpe", tokenizer.Qwen2: "qwen2", tokenizer.SmolLM: "smollm", tokenizer.GPT2: "gpt-2",
}

// TokenizerPairs returns the metadata of a tokenizer, from which
// Metadata.Tokenizer reads it. The parameter ends lists the ids that end a reply
// and size is the number of rows of the embedding; ids without a token get an
// unused one, as in llama.cpp's converter.
func TokenizerPairs(t *tokenizer.Tokenizer, c tokenizer.Config, ends []int32, size int) ([]Pair, error) {
	v, err := t.Vocabulary()
	if err != nil {
		return nil, fmt.Errorf("GGUF tokenizer: %w", err)
	}
	pre, ok := preNames[v.Scheme]
	if !ok {
		return nil, fmt.Errorf("GGUF tokenizer: %w (known are %s)", ErrNoPreTokenizer, slices.Sorted(maps.Values(preNames)))
	}
	if len(v.Tokens) > size {
		return nil, fmt.Errorf("GGUF tokenizer: it has %d tokens, the embedding %d rows", len(v.Tokens), size)
	}
	tokens, types, err := typed(v, size)
	if err != nil {
		return nil, fmt.Errorf("GGUF tokenizer: %w", err)
	}
	merges := make([]string, len(v.Merges))
	for i, m := range v.Merges {
		merges[i] = m[0] + " " + m[1]
	}
	const prefix = "tokenizer.ggml."
	pairs := []Pair{
		{prefix + "model", "gpt2"}, {prefix + "pre", pre}, {prefix + "tokens", tokens}, {prefix + "token_type", types}, {prefix + "merges", merges},
	}
	id := func(key string, id int32) { pairs = append(pairs, Pair{prefix + key + "_token_id", uint32(id)}) }
	if v.BOS >= 0 {
		id("bos", v.BOS)
	} else if bos, ok := t.TokenToID(c.BOS); ok {
		id("bos", bos)
	}
	if eos, ok := t.TokenToID(c.EOS); ok { // the tokenizer's EOS comes first
		ends = append([]int32{eos}, slices.DeleteFunc(slices.Clone(ends), func(id int32) bool { return id == eos })...)
	}
	if len(ends) > len(endKeys) {
		return nil, fmt.Errorf("GGUF tokenizer: the model has %d tokens that end a reply (%v), GGUF has keys for %d", len(ends), ends, len(endKeys))
	}
	for i, end := range ends {
		id(endKeys[i], end)
	}
	if unk, ok := t.TokenToID(c.Unk); ok {
		id("unknown", unk)
	}
	if pad, ok := t.TokenToID(c.Pad); ok {
		id("padding", pad)
	}
	pairs = append(pairs, Pair{prefix + "add_bos_token", v.BOS >= 0})
	return append(pairs, templatePairs(c)...), nil
}

// endKeys are the keys of tokens that end a reply: the ends of a text, of a message
// and of a turn. llama.cpp stops at each of them. The end of a turn is used last,
// because llama.cpp finds that token by its text if the file has no key for it.
var endKeys = []string{"eos", "eom", "eot"}

// typed returns the tokens and their types, with unused tokens for the ids that have none.
func typed(v *tokenizer.Vocabulary, size int) (tokens []string, types []int32, err error) {
	tokens, types = make([]string, size), slices.Repeat([]int32{typeNormal}, size)
	seen := make(map[string]bool, size)
	for id := range tokens {
		if id < len(v.Tokens) {
			tokens[id] = v.Tokens[id]
		}
		if tokens[id] == "" {
			tokens[id], types[id] = fmt.Sprintf("[PAD%d]", id), typeUnused
		}
		if seen[tokens[id]] {
			return nil, nil, fmt.Errorf("token %q has two ids", tokens[id])
		}
		seen[tokens[id]] = true
	}
	for _, a := range v.Added {
		if a.SingleWord || a.LStrip || a.RStrip {
			return nil, nil, fmt.Errorf("added token %q has single_word, lstrip or rstrip, which GGUF cannot express", a.Content)
		}
		types[a.ID] = typeUserDefined
		if a.Special {
			types[a.ID] = typeControl
		}
	}
	return tokens, types, nil
}

// templatePairs returns the chat templates.
func templatePairs(c tokenizer.Config) (pairs []Pair) {
	const key = "tokenizer.chat_template"
	if c.ChatTemplate != "" {
		pairs = append(pairs, Pair{key, c.ChatTemplate})
	}
	var named []string
	for _, name := range slices.Sorted(maps.Keys(c.Templates)) {
		if name != "default" {
			named = append(named, name)
			pairs = append(pairs, Pair{key + "." + name, c.Templates[name]})
		}
	}
	if len(named) > 0 {
		pairs = append(pairs, Pair{"tokenizer.chat_templates", named})
	}
	slices.SortFunc(pairs, func(a, b Pair) int { return cmp.Compare(a.Key, b.Key) })
	return pairs
}
