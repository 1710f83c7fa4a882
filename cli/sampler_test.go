package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/internal/errext"
)

// copyTinyModel copies a model of agent/llm/model's tests to where a test may
// change it.
func copyTinyModel(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "agent", "llm", "model", "testdata", "llama-tied"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPlayingFewTasks: the cache is as large as the tasks can use, not as the
// allowed concurrency.
func TestPlayingFewTasks(t *testing.T) {
	ts := newTestState(t)
	o, code, text := parsed(t, []string{"--model", copyTinyModel(t), "--device", "cpu", "--env", "maze", "--tasks", "0", "--samples", "2", "--max-new-tokens", "4"}, evalFlags(), (*State).parseEval)
	if code != errext.OK {
		t.Fatal(text)
	}
	p, err := ts.openPlaying(context.Background(), o.playOptions)
	defer func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	all := 2 * p.bundle.Model.Config.MaxPositionEmbeddings
	for tokens, fault := range map[int]error{all: nil, all + 1: engine.ErrTooLarge} {
		session, err := p.env.Setup.Engine.Open(context.Background(), engine.SessionOptions{MaxContext: tokens})
		if !errors.Is(err, fault) {
			t.Errorf("a session of %d tokens where two episodes may have %d: %v, want %v", tokens, all, err, fault)
		}
		if err == nil {
			p.env.Setup.Engine.Close(session)
		}
	}
}
