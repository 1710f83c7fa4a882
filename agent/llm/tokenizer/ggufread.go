package tokenizer

import (
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/agent/llm/gguf"
)

// ReadGGUF reads the tokenizer and the chat template from the metadata of a
// GGUF file.
func ReadGGUF(meta *gguf.Metadata) (*Tokenizer, Config, error) {
	r := &vocabReader{meta: meta}
	v := GGUFVocab{
		Model: get(r, "tokenizer.ggml.model", meta.String), Pre: get(r, "tokenizer.ggml.pre", meta.String),
		Tokens: get(r, "tokenizer.ggml.tokens", meta.Strings), TokenTypes: get(r, "tokenizer.ggml.token_type", meta.Int32s),
		Merges: get(r, "tokenizer.ggml.merges", meta.Strings),
		BOS:    r.id("bos_token_id"), EOS: r.id("eos_token_id"), EOT: r.id("eot_token_id"), Pad: r.id("padding_token_id"),
	}
	v.AddBOS = slices.Contains(ggufAddsBOS, v.Pre)
	if meta.Has("tokenizer.ggml.add_bos_token") {
		v.AddBOS = get(r, "tokenizer.ggml.add_bos_token", meta.Bool)
	}
	if r.err != nil {
		return nil, Config{}, r.err
	}
	tok, err := FromGGUF(v)
	if err != nil {
		return nil, Config{}, err
	}
	var c Config
	for _, special := range []struct {
		id    int32
		field *string
	}{{v.BOS, &c.BOS}, {v.EOS, &c.EOS}, {v.Pad, &c.Pad}} {
		if special.id >= 0 {
			*special.field, _ = tok.IDToToken(special.id)
		}
	}
	if meta.Has("tokenizer.chat_template") {
		c.ChatTemplate = get(r, "tokenizer.chat_template", meta.String)
		c.Templates = map[string]string{"default": c.ChatTemplate}
	}
	return tok, c, r.err
}

// vocabReader keeps the first error of several reads.
type vocabReader struct {
	meta *gguf.Metadata
	err  error
}

func get[T any](r *vocabReader, key string, f func(string) (T, error)) T {
	v, err := f(key)
	if err != nil && r.err == nil {
		r.err = err
	}
	return v
}

// id reads the id of a special token, -1 if there is none.
func (r *vocabReader) id(name string) int32 {
	key := "tokenizer.ggml." + name
	if !r.meta.Has(key) {
		return -1
	}
	v := get(r, key, r.meta.Int)
	if v < -1 || v > 1<<30 {
		r.err = fmt.Errorf("gguf metadata %q: %d cannot be a token id", key, v)
	}
	return int32(v)
}
