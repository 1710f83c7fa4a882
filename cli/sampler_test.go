package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// copyTinyModel copies a model of the tests of agent/llm/model to a temporary
// folder.
func copyTinyModel(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "agent", "llm", "model", "testdata", "llama-tied"))); err != nil {
		t.Fatal(err)
	}
	return dir
}
