package cli

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/model"
)

// copyTinyModel copies a model of agent/model's tests to where a test may
// change it.
func copyTinyModel(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "agent", "model", "testdata", "llama-tied"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestStopTokens: a reply ends at every token that the model's files call an
// end, as Qwen2.5's and Llama 3's name two and three.
func TestStopTokens(t *testing.T) {
	for _, c := range []struct {
		name, generation string
		want             []int32
	}{
		{"one", `{"eos_token_id": 2}`, []int32{2}},
		{"two", `{"eos_token_id": [2, 0]}`, []int32{2, 0}},
		{"without the template's own", `{"eos_token_id": 0}`, []int32{2, 0}},
		{"none", `{}`, []int32{2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := copyTinyModel(t)
			writeFile(t, dir, "generation_config.json", c.generation)
			thread, err := newTestState(t).openThread("cpu")
			if err != nil {
				t.Fatal(err)
			}
			defer thread.Close()
			b, err := model.Open(context.Background(), thread, dir, model.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			r, err := newRenderer(b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, r.StopTokens()); diff != "" {
				t.Errorf("stop tokens (-want +got):\n%s", diff)
			}
		})
	}
}
