package gguf

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/tokenizer"
)

var tokenizerTexts = []string{
	"Hello, world!", "", "  two  spaces\n\n\tand 12345 digits, naïve cafe\u0301 日本語 🙂", "don't I'LL we've", "<|im_start|>user\nx<|im_end|>\n",
	"<|begin_of_text|>a<|eot_id|>", "1+1=2 x_y.z(…)  \r\n end ",
}

// TestPublishedTokenizers writes published tokenizers as metadata and reads them again.
func TestPublishedTokenizers(t *testing.T) {
	for name, want := range map[string]struct {
		pre string
		bos bool // texts begin with a BOS token
	}{
		"llama3_2": {"llama-bpe", true}, "qwen2_5": {"qwen2", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("..", "..", "..", "build", "testdata", "tokenizers", name)
			if _, err := os.Stat(dir); err != nil {
				t.Skip("the published tokenizers are not in build/testdata")
			}
			tok, err := tokenizer.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			config, err := tokenizer.LoadConfig(dir)
			if err != nil {
				t.Fatal(err)
			}
			config.Templates = map[string]string{"default": "{{ 1 }}", "tool_use": "{{ 2 }}"}
			config.ChatTemplate = config.Templates["default"]
			eos, _ := tok.TokenToID(config.EOS)
			m := metadataOf(t, tok, config, []int32{3, eos}, tok.Size()+7)
			if pre, err := m.String("tokenizer.ggml.pre"); pre != want.pre {
				t.Errorf("tokenizer.ggml.pre is %q, %v, want %q", pre, err, want.pre)
			}
			if bos, err := m.Bool("tokenizer.ggml.add_bos_token"); bos != want.bos {
				t.Errorf("tokenizer.ggml.add_bos_token is %v, %v, want %v", bos, err, want.bos)
			}
			if other, err := m.Int("tokenizer.ggml.eom_token_id"); other != 3 {
				t.Errorf("tokenizer.ggml.eom_token_id is %d, %v, want the other id that ends a reply", other, err)
			}
			tokens, err := m.Strings("tokenizer.ggml.tokens")
			if err != nil || len(tokens) != tok.Size()+7 {
				t.Errorf("%d tokens, %v, want %d", len(tokens), err, tok.Size()+7)
			}
			again, got, err := m.Tokenizer()
			if err != nil {
				t.Fatal(err)
			}
			if got.EOS != config.EOS || got.BOS != config.BOS || got.ChatTemplate != config.ChatTemplate || !cmp.Equal(got.Templates, config.Templates) {
				t.Errorf("configuration %+v, want %+v", got, config)
			}
			for _, text := range tokenizerTexts {
				for _, o := range []tokenizer.Options{{}, {AddSpecial: true}, {SplitSpecial: true}} {
					a, b := tok.Encode(text, o), again.Encode(text, o)
					if !slices.Equal(a, b) || tok.Decode(a, true) != again.Decode(b, true) {
						t.Errorf("%q with %+v: ids %v, want %v", text, o, b, a)
					}
				}
			}
		})
	}
}

// metadataOf returns the metadata of a tokenizer, written and read.
func metadataOf(t *testing.T, tok *tokenizer.Tokenizer, c tokenizer.Config, ends []int32, size int) *Metadata {
	t.Helper()
	pairs, err := TokenizerPairs(tok, c, ends, size)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, pairs, nil, nil).Metadata()
}

func TestTokenizerRefusals(t *testing.T) {
	vocabulary := func(scheme tokenizer.Scheme, added ...tokenizer.AddedToken) *tokenizer.Tokenizer {
		v := tokenizer.Vocabulary{Tokens: []string{"a", "b", "", "<s>"}, Merges: [][2]string{}, Added: added, Scheme: scheme, BOS: -1}
		tok, err := v.Build()
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	plain := vocabulary(tokenizer.GPT2)
	if _, err := TokenizerPairs(plain, tokenizer.Config{}, nil, 3); err == nil {
		t.Error("more tokens than rows: no error")
	}
	if _, err := TokenizerPairs(plain, tokenizer.Config{EOS: "a"}, []int32{1, 2, 3}, 4); err == nil {
		t.Error("four ids that end a reply: no error")
	}
	if _, err := TokenizerPairs(vocabulary(tokenizer.GPT2, tokenizer.AddedToken{ID: 3, Content: "<s>", LStrip: true}), tokenizer.Config{}, nil, 4); err == nil {
		t.Error("an added token with lstrip: no error")
	}
	text := []byte(`{"version":"1.0","added_tokens":[],"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true},"decoder":{"type":"ByteLevel"},
		"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`)
	spaced, err := tokenizer.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TokenizerPairs(spaced, tokenizer.Config{}, nil, 1); !errors.Is(err, ErrNoPreTokenizer) {
		t.Errorf("add_prefix_space: got error %v", err)
	}
}
