package run

import (
	"bytes"
	"context"
	_ "embed"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/torch"
)

// tinyRun configures a complete training run that takes seconds.
//
//go:embed testdata/tiny.toml
var tinyRun string

// testHost is a Host in a temporary folder. It keeps the log.
type testHost struct {
	Host
	log *syncBuffer
}

func newTestHost(t *testing.T) *testHost {
	t.Helper()
	log := &syncBuffer{}
	return &testHost{log: log, Host: Host{
		Log:     slog.New(slog.NewTextHandler(log, nil)),
		Dir:     t.TempDir(),
		Getenv:  func(key string) string { return map[string]string{"HF_HUB_OFFLINE": "1"}[key] }, // no test uses the network
		Environ: func() []string { return []string{"PATH=" + os.Getenv("PATH")} },
		Now:     func() time.Time { return time.Unix(1e9, 0) },
	}.WithDefaults()}
}

// syncBuffer is a buffer that several goroutines may use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func mustContain(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s lacks %q:\n%s", what, w, text)
		}
	}
}

// copyTinyModel copies a folder with a llama of a few kilobytes.
func copyTinyModel(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "agent", "llm", "model", "testdata", "llama-tied"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tinyModel writes a model of one layer with a chat template. With labels above 0
// it writes a reward model.
func tinyModel(t *testing.T, labels int) string {
	t.Helper()
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	b, err := FreshModel(context.Background(), th, configs.Fresh{
		Layers: 1, HiddenSize: 32, IntermediateSize: 64, Heads: 2, KVHeads: 1, Vocabulary: "bytes",
	}, 4096, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if labels > 0 {
		c := b.Model.Config
		c.Labels, c.InitializerRange = labels, 0.3
		m, err := model.New(t.Context(), th, c, 7, torch.Float32)
		if err != nil {
			t.Fatal(err)
		}
		b.Model.Close()
		b.Model = m
	}
	dir := t.TempDir()
	if err := b.Save(context.Background(), dir, torch.Float32); err != nil {
		t.Fatal(err)
	}
	return dir
}
