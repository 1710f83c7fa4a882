package gguf

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/tokenizer"
)

// TestSchemes checks that each value of tokenizer.ggml.pre gives the scheme
// of the published tokenizer.json.
func TestSchemes(t *testing.T) {
	dir := os.Getenv("OPENMANUS_TESTDATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "build", "testdata")
	}
	for name, pre := range map[string]string{"llama3_2": "llama-bpe", "qwen3": "qwen2"} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("needs a fetched tokenizer; not in short mode")
			}
			v := vocabulary{
				model: "gpt2", pre: pre, tokens: []string{"a", "b", "ab", "<|begin_of_text|>", "[PAD0]"}, types: []int32{1, 1, 1, 3, 5},
				merges: []string{"a b"}, bos: 3, eos: 3, pad: -1, addBOS: name == "llama3_2",
			}
			tok, err := v.tokenizer()
			if err != nil {
				t.Fatal(err)
			}
			if tok.Size() != 4 {
				t.Errorf("size %d, want 4: the padding token at the end must be omitted", tok.Size())
			}
			original, err := tokenizer.Load(filepath.Join(dir, "tokenizers", name))
			if err != nil {
				t.Fatalf("%v\nrun ./build.sh test, which fetches the tokenizers, or set OPENMANUS_TESTDATA", err)
			}
			for _, part := range []string{"pre_tokenizer", "normalizer"} {
				if diff := cmp.Diff(component(t, original, part), component(t, tok, part)); diff != "" {
					t.Errorf("%s (-published +ours):\n%s", part, diff)
				}
			}
			for what, traits := range map[string][2]bool{
				"ignore_merges": {ignoresMerges(t, original), ignoresMerges(t, tok)},
				"BOS":           {addsToken(original), addsToken(tok)},
			} {
				if traits[0] != traits[1] {
					t.Errorf("%s is %v, want %v as in the published tokenizer.json", what, traits[1], traits[0])
				}
			}
		})
	}
}

func ignoresMerges(t *testing.T, tok *tokenizer.Tokenizer) bool {
	t.Helper()
	var doc struct {
		Model struct {
			IgnoreMerges bool `json:"ignore_merges"`
		}
	}
	if err := json.Unmarshal(tok.RawJSON(), &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Model.IgnoreMerges
}

// addsToken reports whether the post-processor adds a token to a text.
func addsToken(tok *tokenizer.Tokenizer) bool {
	return len(tok.Encode("a", tokenizer.Options{AddSpecial: true})) > len(tok.Encode("a", tokenizer.Options{}))
}

// component returns a part of a tokenizer.json without its offset settings.
func component(t *testing.T, tok *tokenizer.Tokenizer, name string) string {
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

func TestTokenizerErrors(t *testing.T) {
	good := func() *vocabulary {
		return &vocabulary{
			model: "gpt2", pre: "gpt-2", tokens: []string{"a", "b", "ab", "<s>"}, types: []int32{1, 1, 1, 3},
			merges: []string{"a b"}, bos: 3, eos: 3, pad: -1, addBOS: true,
		}
	}
	tok, err := good().tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Encode("ab<s>", tokenizer.Options{AddSpecial: true}); !slices.Equal(got, []int32{3, 2, 3}) {
		t.Errorf("the ids of ab<s> are %v, want [3 2 3]", got)
	}
	for name, c := range map[string]struct {
		spoil func(*vocabulary)
		want  string
	}{
		"model":       {func(v *vocabulary) { v.model = "llama" }, `"llama" is not supported`},
		"pre":         {func(v *vocabulary) { v.pre = "tekken" }, `"tekken" is not known; known are gpt-2,`},
		"no pre":      {func(v *vocabulary) { v.pre = "" }, `"" is not known`},
		"types":       {func(v *vocabulary) { v.types = v.types[1:] }, "4 tokens but 3 token types"},
		"byte type":   {func(v *vocabulary) { v.types[0] = 6 }, "has type 6"},
		"merge":       {func(v *vocabulary) { v.merges[0] = "ab" }, "merges[0]"},
		"lost merge":  {func(v *vocabulary) { v.merges[0] = "b a" }, `"ba" is not in the vocabulary`},
		"add bos":     {func(v *vocabulary) { v.bos = -1 }, "bos_token_id is missing"},
		"same tokens": {func(v *vocabulary) { v.tokens[1] = "a" }, `"a" has two ids, 0 and 1`},
		"none":        {func(v *vocabulary) { v.tokens, v.types = nil, nil }, "has no tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			v := good()
			c.spoil(v)
			_, err := v.tokenizer()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that contains %q", err, c.want)
			}
		})
	}
}

func TestTokenizerOfMetadata(t *testing.T) {
	good := func() map[string]any {
		return map[string]any{
			"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": []string{"a", "b", "ab", "<s>"},
			"tokenizer.ggml.token_type": []int32{1, 1, 1, 3}, "tokenizer.ggml.merges": []string{"a b"},
			"tokenizer.ggml.eos_token_id": uint32(3), "tokenizer.chat_template": "{{ messages }}",
		}
	}
	tok, config, err := (&Metadata{values: good()}).Tokenizer()
	if err != nil || tok.Size() != 4 || config.EOS != "<s>" || config.BOS != "" || config.ChatTemplate != "{{ messages }}" {
		t.Fatalf("tokenizer configuration %+v, error %v", config, err)
	}
	for key, value := range map[string]any{
		"tokenizer.ggml.eos_token_id": uint32(4), "tokenizer.ggml.bos_token_id": int32(-2), "tokenizer.ggml.tokens": 1, "tokenizer.ggml.add_bos_token": "yes",
	} {
		values := good()
		values[key] = value
		if _, _, err := (&Metadata{values: values}).Tokenizer(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s = %v: error %v does not name the key", key, value, err)
		}
	}
}
