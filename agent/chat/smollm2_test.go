package chat

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/agent/model/gguf"
	"github.com/openmanus/openmanus/agent/tokenizer"
)

// readSmolLM2 reads template and tokenizer from the model file, if it is there.
func readSmolLM2(t testing.TB) model {
	t.Helper()
	path := os.Getenv("OPENMANUS_SMOLLM2_GGUF")
	if path == "" {
		path = filepath.Join("..", "..", "build", "models", "SmolLM2-135M-Instruct.gguf")
		if _, err := os.Stat(path); err != nil {
			t.Skipf("%s is not there; ./build.sh model fetches it", path)
		}
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := f.Metadata()
	v := tokenizer.GGUFVocab{BOS: 1, EOS: 2, EOT: -1, Pad: 2}
	var config tokenizer.Config
	for key, to := range map[string]*string{
		"tokenizer.ggml.model": &v.Model, "tokenizer.ggml.pre": &v.Pre, "tokenizer.chat_template": &config.ChatTemplate,
	} {
		if *to, err = m.String(key); err != nil {
			t.Fatal(err)
		}
	}
	for key, to := range map[string]*[]string{"tokenizer.ggml.tokens": &v.Tokens, "tokenizer.ggml.merges": &v.Merges} {
		if *to, err = m.Strings(key); err != nil {
			t.Fatal(err)
		}
	}
	if v.TokenTypes, err = m.Int32s("tokenizer.ggml.token_type"); err != nil {
		t.Fatal(err)
	}
	config.BOS, config.EOS = v.Tokens[v.BOS], v.Tokens[v.EOS]
	tok, err := tokenizer.FromGGUF(v)
	if err != nil {
		t.Fatal(err)
	}
	return model{tok: tok, config: config}
}
