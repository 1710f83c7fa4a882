package tokenizer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openmanus/openmanus/agent/llm/gguf"
)

// loadSmolLM2 reads the tokenizer of the model file, if it is there.
func loadSmolLM2(t testing.TB) (*Tokenizer, Config) {
	t.Helper()
	f, err := gguf.Open(filepath.Join("..", "..", "..", "build", "models", "SmolLM2-135M-Instruct.gguf"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the real model is not in build/models; ./build.sh model fetches it")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, config, err := ReadGGUF(f.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	return tok, config
}

func TestSmolLM2(t *testing.T) {
	tok, config := loadSmolLM2(t)
	if config.BOS != "<|im_start|>" || config.EOS != "<|im_end|>" || config.ChatTemplate == "" {
		t.Errorf("config %+v", config)
	}
	checkGoldens(t, tok, "smollm2")
}

// TestGGUFPre compares what a name of tokenizer.ggml.pre stands for with the
// components of the published tokenizer.json.
func TestGGUFPre(t *testing.T) {
	for name, pre := range map[string]string{"llama3_2": "llama-bpe", "qwen3": "qwen2"} {
		t.Run(name, func(t *testing.T) {
			tok, err := FromGGUF(GGUFVocab{
				Model: "gpt2", Pre: pre, Tokens: []string{"a", "b", "ab", "<|begin_of_text|>", "[PAD0]"}, TokenTypes: []int32{1, 1, 1, 3, 5},
				Merges: []string{"a b"}, BOS: 3, EOS: 3, EOT: -1, Pad: -1, AddBOS: name == "llama3_2",
			})
			if err != nil {
				t.Fatal(err)
			}
			if tok.Size() != 4 {
				t.Errorf("size %d: padding at the end is not left out", tok.Size())
			}
			original := loadReal(t, name)
			if tok.nfc != original.nfc || tok.bpe.ignoreMerges != original.bpe.ignoreMerges || (tok.post == nil) != (original.post == nil) {
				t.Errorf("NFC %v, ignore_merges %v, template %v", tok.nfc, tok.bpe.ignoreMerges, tok.post)
			}
			if diff := cmp.Diff(component(t, original, "pre_tokenizer"), component(t, tok, "pre_tokenizer")); diff != "" {
				t.Errorf("pre_tokenizer (-original +ours):\n%s", diff)
			}
		})
	}
}

// component is a part of a tokenizer.json, without what touches offsets only.
func component(t *testing.T, tok *Tokenizer, name string) string {
	t.Helper()
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(tok.RawJSON(), &parts); err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(parts[name], &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(`"trim_offsets":true,`, "", `"trim_offsets":false,`, "").Replace(string(out))
}

func TestGGUFErrors(t *testing.T) {
	good := func() GGUFVocab {
		return GGUFVocab{
			Model: "gpt2", Pre: "gpt-2", Tokens: []string{"a", "b", "ab", "<s>"}, TokenTypes: []int32{1, 1, 1, 3},
			Merges: []string{"a b"}, BOS: 3, EOS: 3, EOT: -1, Pad: -1, AddBOS: true,
		}
	}
	tok, err := FromGGUF(good())
	if err != nil {
		t.Fatal(err)
	}
	sameIDs(t, "ab<s>", []int32{3, 2, 3}, tok.Encode("ab<s>", Options{AddSpecial: true}))
	for name, c := range map[string]struct {
		spoil func(*GGUFVocab)
		want  string
	}{
		"model":       {func(v *GGUFVocab) { v.Model = "llama" }, `"llama" is not supported`},
		"pre":         {func(v *GGUFVocab) { v.Pre = "tekken" }, `"tekken" is not known; known are gpt-2,`},
		"no pre":      {func(v *GGUFVocab) { v.Pre = "" }, `"" is not known`},
		"types":       {func(v *GGUFVocab) { v.TokenTypes = v.TokenTypes[1:] }, "4 tokens but 3 token types"},
		"byte type":   {func(v *GGUFVocab) { v.TokenTypes[0] = 6 }, "has type 6"},
		"merge":       {func(v *GGUFVocab) { v.Merges[0] = "ab" }, "merges[0]"},
		"lost merge":  {func(v *GGUFVocab) { v.Merges[0] = "b a" }, `"ba" is not in the vocabulary`},
		"eos":         {func(v *GGUFVocab) { v.EOS = 9 }, "the eos token's id is 9"},
		"add bos":     {func(v *GGUFVocab) { v.BOS = -1 }, "there is no bos_token_id"},
		"same tokens": {func(v *GGUFVocab) { v.Tokens[1] = "a" }, `"a" is there twice, as 0 and 1`},
		"none":        {func(v *GGUFVocab) { v.Tokens, v.TokenTypes = nil, nil }, "there are no tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			v := good()
			c.spoil(&v)
			_, err := FromGGUF(v)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}
