package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/internal/errext"
)

// TestRetries checks that env.retries is the number of attempts after the first.
func TestRetries(t *testing.T) {
	maze, err := builtin.New("maze", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var resets atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/reset") {
			resets.Add(1)
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		maze.ServeHTTP(w, r)
	}))
	defer server.Close()
	for _, retries := range []int{0, 2} {
		ts := newTestState(t)
		e := run.Schema.DefaultEnv("maze")
		e.Servers, e.Retries = []string{server.URL}, retries
		w, err := run.OpenWorld(t.Context(), &ts.Host, e, run.WorldOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lease, err := w.Pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		resets.Store(0)
		if _, err = lease.Client().Reset(t.Context(), 1); err == nil {
			t.Error("the reset succeeded")
		}
		lease.Release()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if got := resets.Load(); got != int32(retries)+1 {
			t.Errorf("retries %d: %d attempts, want %d", retries, got, retries+1)
		}
	}
}

// TestWithoutModel checks that a missing model is reported before a request to a server and before the start of servers.
func TestWithoutModel(t *testing.T) {
	var asked atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer server.Close()
	ts := newTestState(t, "eval", "--model", "none", "--env", "maze", "--server", server.URL, "--tasks", "1", "--quiet")
	if code := Main(ts.State); code != int(errext.Model) || asked.Load() {
		t.Errorf("exit code %d, want %d; a request was sent to the server: %t, want false", code, errext.Model, asked.Load())
	}
	mustContain(t, "stderr", ts.err.String(), "--model: ", "none")
}

// TestTextcraftIndexRange checks that an index above the number of textcraft's tasks is an error.
func TestTextcraftIndexRange(t *testing.T) {
	n := builtin.OwnBook().Len()
	for _, index := range []int{n - 1, n} {
		ts := newTestState(t, "eval", "--model", ".", "--env", "textcraft", "--tasks", strconv.Itoa(index), "--quiet")
		code := Main(ts.State)
		if beyond := index == n; beyond != strings.Contains(ts.err.String(), fmt.Sprintf("has tasks 0 to %d", n-1)) || beyond != (code == int(errext.Input)) {
			t.Errorf("task %d of %d: exit code %d: %s", index, n, code, ts.err.String())
		}
	}
	// The preset has different tasks for training and for validation.
	text, err := configs.Preset("grpo")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := schema.Load("grpo", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, entry := range append(cfg.Env[0].Tasks, cfg.Env[0].ValTasks...) {
		indices, err := configs.ParseIndices(entry)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range indices {
			if i >= n || seen[i] {
				t.Fatalf("the preset has task %d twice, or it is not one of %d tasks", i, n)
			}
			seen[i] = true
		}
	}
}
