package cli

import (
	"testing"

	"github.com/openmanus/openmanus/configs"
)

// opened is a training as far as the model, with files in its folder.
func opened(t *testing.T, files map[string]string, text string, sets ...string) (*training, error) {
	t.Helper()
	ts := newTestState(t)
	for name, content := range files {
		writeFile(t, ts.Dir, name, content)
	}
	cfg, err := configs.Load("run.toml", []byte(text), sets)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := ts.openTraining(t.Context(), cfg, &openedRun{}, reinforced)
	t.Cleanup(func() {
		if err := tr.close(); err != nil {
			t.Error(err)
		}
	})
	return tr, err
}

// A fresh model may be trained by reinforcement alone; a vocabulary of merges
// needs texts, one of bytes none.
func TestFreshModelWithoutExperts(t *testing.T) {
	alone := []string{"sft.epochs=0", "env.maze.expert_tasks=", "model.fresh.walks=0"}
	if _, err := opened(t, nil, tinyRun, append(alone, "model.fresh.vocabulary=bytes")...); err != nil {
		t.Error(err)
	}
	_, err := opened(t, nil, tinyRun, alone...)
	if code := codeOf(t.Context(), err); code != ExitInput {
		t.Errorf("exit code %d: %v", code, err)
	}
	mustContain(t, "the error", err.Error(), "bpe vocabulary", `model.fresh.vocabulary = "bytes"`)
}
