package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
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

func TestKVTokens(t *testing.T) {
	base := samplerOptions{Sequences: 8, MaxContext: 100, MemoryShare: 0.5, Shrink: shrinkFlags}
	for _, c := range []struct {
		name  string
		free  int64
		known bool
		want  int
		fault string
	}{
		{"plenty", 1 << 30, true, 800, ""},
		{"unknown", 0, false, 800, ""},
		{"half of what is free", 10 * 2 * 300, true, 300, ""},
		{"not one episode", 10 * 2 * 99, true, 0, "lower --max-context-tokens, or free some memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := base.kvTokens(10, c.free, c.known)
			if (err != nil) != (c.fault != "") || got != c.want {
				t.Fatalf("%d, %v; want %d", got, err, c.want)
			}
			if err != nil {
				mustContain(t, "the error", err.Error(), c.fault)
			}
		})
	}
}

// On a GPU, whose free memory nobody asks for, a line says what the cache takes.
func TestNoteCache(t *testing.T) {
	for _, d := range []torch.Device{{}, {CUDA: true}} {
		ts := newTestState(t)
		tr := &training{s: ts.State, sampler: &sampler{kvBytes: 4096}}
		tr.cfg.Agent.MaxWorkers, tr.cfg.Rollout.MaxSequences = 3, 5
		tr.noteCache(d)
		if d.CUDA != strings.Contains(ts.err.String(), "bytes=4096 sessions=3") {
			t.Errorf("%s: %q", d, ts.err.String())
		}
	}
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
			r, err := newRenderer(b, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, r.StopTokens()); diff != "" {
				t.Errorf("stop tokens (-want +got):\n%s", diff)
			}
		})
	}
}
