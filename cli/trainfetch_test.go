package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/hub/hubtest"
)

// TestTrainFetches trains adapters on a model of the hub that is not in the cache, and describes the run after it was moved
// to a machine with another cache.
func TestTrainFetches(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains a model")
	}
	s := hubtest.New(t)
	s.AddFolder(t, "acme/tiny", tinyModel(t))
	r := &docRun{dir: t.TempDir(), args: []string{"run.toml"}}
	writeFile(t, r.dir, "run.toml", tinyRun)
	r.limitRun()
	r.set("model.fresh.layers=0", "model.path=acme/tiny", "model.lora_rank=2", "sft.epochs=1", "sft.max_length=2048", "data.max_prompt_tokens=1024", "rollout.max_context_tokens=2048", "env.maze.expert_tasks=17")
	code, stdout, stderr := inEnvironment(t, r.dir, s.Environment("hub"), append([]string{"train"}, r.args...)...)
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if err := os.Rename(filepath.Join(r.dir, "hub"), filepath.Join(r.dir, "unused")); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = inEnvironment(t, r.dir, s.Environment("other"), "model", "info", "tiny")
	if code != 0 || !strings.Contains(stdout, "adapters") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "other", "models--acme--tiny")); err != nil {
		t.Errorf("the base was not fetched: %v", err)
	}
}
