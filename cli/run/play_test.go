package run

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/configs"
)

// TestPlayingFewTasks checks that the KV cache has just the size for the episodes of
// all tasks, even if the configuration allows more sessions.
func TestPlayingFewTasks(t *testing.T) {
	cfg := Schema.Defaults()
	cfg.Model.Path, cfg.Model.Device = filepath.Join("..", "..", "agent", "llm", "model", "testdata", "llama-tied"), "cpu"
	cfg.Rollout.Val.GroupSize, cfg.Rollout.MaxNewTokens, cfg.Rollout.MaxContextTokens = 2, 4, 0
	e := Schema.DefaultEnv("maze")
	e.Format, e.MaxTurns, e.ValTasks = "react", 3, []string{"0"}
	cfg.Env = []configs.Env{e}
	r, err := Open(t.Context(), cfg, Host{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.openPlayer(t.Context(), PlayOptions{}, "")
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
			t.Errorf("a session of %d tokens in a cache of %d tokens: got error %v, want %v", tokens, all, err, fault)
		}
		if err == nil {
			p.env.Setup.Engine.Close(session)
		}
	}
}
