package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

// TestHubModel checks that a model opens by its name on the Hugging Face Hub. The
// model is in the local cache, whose snapshots consist of links.
func TestHubModel(t *testing.T) {
	dir, tiny := t.TempDir(), tinyModel(t)
	repository := filepath.Join(dir, ".cache/huggingface/hub/models--acme--tiny")
	snapshot := filepath.Join(repository, "snapshots/abc123")
	for _, folder := range []string{snapshot, filepath.Join(repository, "refs")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, repository, "refs/main", "abc123")
	files, err := os.ReadDir(tiny)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Symlink(filepath.Join(tiny, f.Name()), filepath.Join(snapshot, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", dir)
	for _, name := range []string{"HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"} {
		t.Setenv(name, "")
	}
	if code, stdout, stderr := inProcess(t, dir, "model", "info", "acme/tiny"); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, _, stderr := inProcess(t, dir, "train", "--preset", "grpo", "--env", "maze", "--set", "model.path=acme/gone", "--set", "env.maze.tasks=0-9")
	if code != int(errext.Model) {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stderr", stderr, "model.path: ", "`hf download acme/gone`", ".cache/huggingface/hub")
}
