package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openmanus/openmanus/env/builtin"
)

// env.retries counts the tries after the first: 0 is one try.
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
		w, err := ts.openWorld(t.Context(), worldOptions{Name: "maze", Servers: []string{server.URL}, Retries: retries})
		if err != nil {
			t.Fatal(err)
		}
		lease, err := w.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		resets.Store(0)
		if _, err = lease.Client().Reset(t.Context(), 1); err == nil {
			t.Error("the reset went well")
		}
		lease.Release(true)
		if err := w.close(); err != nil {
			t.Error(err)
		}
		if got := resets.Load(); got != int32(retries)+1 {
			t.Errorf("retries %d: %d tries, want %d", retries, got, retries+1)
		}
	}
}
