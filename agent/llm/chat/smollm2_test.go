package chat

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/gguf"
)

// readSmolLM2 reads the template and the tokenizer from the model file, if it exists.
func readSmolLM2(t testing.TB) model {
	t.Helper()
	f, err := gguf.Open(filepath.Join("..", "..", "..", "build", "models", "SmolLM2-135M-Instruct.gguf"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the real model is not in build/models; ./build.sh model fetches it")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, config, err := f.Metadata().Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	return model{tok: tok, config: config}
}
