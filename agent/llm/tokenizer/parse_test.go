package tokenizer

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// tiny returns the parts of a valid tokenizer.json, for tests that replace one part.
func tiny() map[string]string {
	vocab := map[string]int{}
	for b := range 256 {
		vocab[string(byteRune[b])] = b
	}
	vocab["ab"] = 256
	raw, _ := json.Marshal(vocab)
	return map[string]string{
		"version": `"1.0"`, "truncation": "null", "padding": "null", "added_tokens": `[]`, "normalizer": "null",
		"pre_tokenizer":  `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`,
		"post_processor": "null", "decoder": `{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}`,
		"model": `{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,` +
			`"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"vocab":` + string(raw) + `,"merges":["a b"]}`,
	}
}

func join(parts map[string]string) []byte {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(parts)) {
		out = append(out, `"`+k+`":`+parts[k])
	}
	return []byte("{" + strings.Join(out, ",") + "}")
}

// TestUnsupported checks that the error of an unsupported component or option
// names it.
func TestUnsupported(t *testing.T) {
	if _, err := Parse(join(tiny())); err != nil {
		t.Fatal(err)
	}
	added := func(s string) string {
		return `[{"id":257,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}` + s + `]`
	}
	template := func(single, ids string) string {
		return `{"type":"TemplateProcessing","single":` + single + `,"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[` + ids + `],"tokens":["<s>"]}}}`
	}
	split := func(rest string) string {
		return `{"type":"Sequence","pretokenizers":[{"type":"Split",` + rest + `},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]}`
	}
	for _, c := range []struct{ name, key, value, old, want string }{
		{"top-level key", "surprise", "1", "", `option "surprise"`},
		{"model type", "model", `"type":"Unigram"`, `"type":"BPE"`, `model: type "Unigram"`},
		{"model option", "model", `"fuse_unk":false,"magic":1`, `"fuse_unk":false`, `model: option "magic"`},
		{"dropout", "model", `"dropout":0.1`, `"dropout":null`, "dropout 0.1"},
		{"prefix", "model", `"continuing_subword_prefix":"##"`, `"continuing_subword_prefix":null`, "continuing_subword_prefix"},
		{"suffix", "model", `"end_of_word_suffix":"</w>"`, `"end_of_word_suffix":null`, "end_of_word_suffix"},
		{"byte_fallback", "model", `"byte_fallback":true`, `"byte_fallback":false`, "byte_fallback"},
		{"unk_token", "model", `"unk_token":"<unk>"`, `"unk_token":null`, `unk_token "<unk>"`},
		{"merge of three", "model", `["a b c"]`, `["a b"]`, "merges[0]"},
		{"merge of unknown", "model", `["a c"]`, `["a b"]`, `"ac" is not in the vocabulary`},
		{"merge pair of three", "model", `[["a","b","c"]]`, `["a b"]`, "merges[0]"},
		{"merge of a number", "model", `["a b",5]`, `["a b"]`, "neither a list of strings nor a list of pairs"},
		{"merge pair of one", "model", `[["a"]]`, `["a b"]`, `["a"] is not a pair`},
		{"merges of no list", "model", `{}`, `["a b"]`, "merges are neither a list"},
		{"id of a token", "model", `"ab":"x"`, `"ab":256`, "vocab of type int32"},
		{"fractional id", "model", `"ab":1.5`, `"ab":256`, "vocab of type int32"},
		{"negative id", "model", `"ab":-1`, `"ab":256`, `"ab" has id -1`},
		{"huge id", "model", `"ab":2000000000`, `"ab":256`, `"ab" has id 2000000000`},
		{"same ids", "model", `"ab":97`, `"ab":256`, "both have id 97"},
		{"no model", "model", "null", "", "model: missing"},
		{"normalizer", "normalizer", `{"type":"Lowercase"}`, "", `normalizer: type "Lowercase"`},
		{"nested normalizer", "normalizer", `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"StripAccents"}]}`, "", `type "StripAccents"`},
		{"normalizer option", "normalizer", `{"type":"NFC","x":1}`, "", `option "x"`},
		{"no pre-tokenizer", "pre_tokenizer", "null", "", "pre_tokenizer: missing"},
		{"pre-tokenizer", "pre_tokenizer", `{"type":"Whitespace"}`, "", "pre_tokenizer: step 0 is Whitespace"},
		{"pre-tokenizer in sequence", "pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Metaspace"},{"type":"ByteLevel"}]}`, "", "Metaspace: type is not supported"},
		{"ByteLevel option", "pre_tokenizer", `{"type":"ByteLevel","magic":true}`, "", `option "magic"`},
		{"two ByteLevels", "pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},{"type":"ByteLevel"}]}`, "", "ByteLevel must be the last step"},
		{"empty sequence", "pre_tokenizer", `{"type":"Sequence","pretokenizers":[]}`, "", "missing or empty"},
		{"behavior", "pre_tokenizer", split(`"pattern":{"String":"x"},"behavior":"Exploded","invert":false`), "", `behavior "Exploded"`},
		{"pattern of both kinds", "pre_tokenizer", split(`"pattern":{"String":"x","Regex":"y"},"behavior":"Isolated","invert":false`), "", "one of Regex and String"},
		{"word class", "pre_tokenizer", split(`"pattern":{"Regex":"\\w+"},"behavior":"Isolated","invert":false`), "", "escape at byte 0"},
		{"possessive", "pre_tokenizer", split(`"pattern":{"Regex":"a++"},"behavior":"Isolated","invert":false`), "", "possessive"},
		{"anchor", "pre_tokenizer", split(`"pattern":{"Regex":"^a"},"behavior":"Isolated","invert":false`), "", "'^' at byte 0"},
		{"nested class", "pre_tokenizer", split(`"pattern":{"Regex":"[a[b]]"},"behavior":"Isolated","invert":false`), "", "nested class"},
		{"case-insensitive", "pre_tokenizer", split(`"pattern":{"Regex":"(?i:k)"},"behavior":"Isolated","invert":false`), "", "group at byte 0"},
		{"exponential", "pre_tokenizer", split(`"pattern":{"Regex":"(a+)+b"},"behavior":"Isolated","invert":false`), "", "repetition at byte 4"},
		{"polynomial in groups", "pre_tokenizer", split(`"pattern":{"Regex":"(a+|b)(a+|b)(a+|b)(a+|b)c"},"behavior":"Isolated","invert":false`), "", "too slow"},
		{"polynomial", "pre_tokenizer", split(`"pattern":{"Regex":"a*a*a*a*b"},"behavior":"Isolated","invert":false`), "", "repetition at byte 7"},
		{"script", "pre_tokenizer", split(`"pattern":{"Regex":"\\p{Han}"},"behavior":"Isolated","invert":false`), "", "escape at byte 0"},
		{"broken regex", "pre_tokenizer", split(`"pattern":{"Regex":"(a"},"behavior":"Isolated","invert":false`), "", "pattern"},
		{"post-processor", "post_processor", `{"type":"BertProcessing"}`, "", `post_processor: type "BertProcessing"`},
		{"template without text", "post_processor", template(`[{"SpecialToken":{"id":"<s>","type_id":0}}]`, "97"), "", `lacks the sequence "A"`},
		{"template of another token", "post_processor", template(`[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}]`, "97"), "", `id 97 is not token "<s>"`},
		{"template of an unknown token", "post_processor", template(`[{"SpecialToken":{"id":"</s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}]`, "97"), "", `"</s>" is not defined`},
		{"template of a pair", "post_processor", template(`[{"Sequence":{"id":"B","type_id":0}}]`, "97"), "", `the sequence "A" once`},
		{"no decoder", "decoder", "null", "", "decoder: missing"},
		{"decoder", "decoder", `{"type":"WordPiece"}`, "", `decoder: type "WordPiece"`},
		{"added token's id", "added_tokens", strings.Replace(added(""), "257", "300", 1), "", "want 257"},
		{"added token twice", "added_tokens", added(`,{"id":258,"content":"<s>"}`), "", "occurs twice"},
		{"added token without text", "added_tokens", added(`,{"id":258,"content":""}`), "", "no content"},
		{"added token's option", "added_tokens", added(`,{"id":258,"content":"x","magic":1}`), "", `option "magic"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			parts := tiny()
			if c.old != "" {
				if !strings.Contains(parts[c.key], c.old) {
					t.Fatalf("%s does not contain %s", c.key, c.old)
				}
				parts[c.key] = strings.Replace(parts[c.key], c.old, c.value, 1)
			} else {
				parts[c.key] = c.value
			}
			_, err := Parse(join(parts))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that contains %q", err, c.want)
			}
		})
	}
}

func TestLoadErrors(t *testing.T) {
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("empty folder: %v", err)
	}
	for _, bad := range []string{"", "[]", "{", "null", `{"version":"1.0"}`, string(join(tiny())) + "x"} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%.20q: no error", bad)
		}
	}
}

// TestMergeForms checks that Parse reads both forms of merges.
func TestMergeForms(t *testing.T) {
	for _, merges := range []string{`["a b"]`, `[["a", "b"]]`} {
		parts := tiny()
		parts["model"] = strings.Replace(parts["model"], `["a b"]`, merges, 1)
		tok, err := Parse(join(parts))
		if err != nil {
			t.Fatal(err)
		}
		sameIDs(t, merges, []int32{256}, tok.Encode("ab", Options{}))
	}
}

func TestAccess(t *testing.T) {
	parts := tiny()
	parts["added_tokens"] = `[{"id":257,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},` +
		`{"id":258,"content":"<t>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false}]`
	data := join(parts)
	tok, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if tok.Size() != 259 || string(tok.RawJSON()) != string(data) {
		t.Errorf("size %d, RawJSON %q", tok.Size(), tok.RawJSON())
	}
	if id, ok := tok.TokenToID("ab"); !ok || id != 256 {
		t.Errorf("TokenToID(ab) = %d, %v; want 256", id, ok)
	}
	for _, id := range []int32{-1, 259, 1 << 30} {
		if s, ok := tok.IDToToken(id); ok {
			t.Errorf("IDToToken(%d) = %q, want none", id, s)
		}
	}
	if added := tok.Added(); len(added) != 2 || !added[0].Special || added[1].Special {
		t.Errorf("added tokens %+v", added)
	}
	if got := tok.Decode([]int32{257, 256, 258, -5, 9999}, true); got != "ab<t>" {
		t.Errorf("Decode: got %q, want \"ab<t>\"", got)
	}
}
