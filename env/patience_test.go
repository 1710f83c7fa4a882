package env

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A limit that is out of proportion is said once, and one that is not never.
func TestPatience(t *testing.T) {
	hung := &Error{Kind: KindTimeout, Op: opStep}
	for _, c := range []struct {
		name  string
		good  int
		takes time.Duration
		limit time.Duration
		err   *Error
		want  int
	}{
		{"far too long", patientAfter, 10 * time.Millisecond, 300 * time.Second, hung, 1},
		{"short anyhow", patientAfter, 10 * time.Millisecond, patientFrom - 1, hung, 0},
		{"in proportion", patientAfter, 20 * time.Second, 300 * time.Second, hung, 0},
		{"little is known", patientAfter - 1, 10 * time.Millisecond, 300 * time.Second, hung, 0},
		{"no hang", patientAfter, 10 * time.Millisecond, 300 * time.Second, &Error{Kind: KindServer, Op: opStep}, 0},
	} {
		var log strings.Builder
		p := newPool(t, PoolOptions{Log: slog.New(slog.NewTextHandler(&log, nil))}, "http://127.0.0.1:1")
		p.mu.Lock()
		for range c.good {
			p.time(p.servers[0], opStep, c.takes, nil)
			p.time(p.servers[0], opCreate, time.Minute, nil) // of another sort
		}
		for range 3 {
			p.time(p.servers[0], opStep, c.limit, c.err)
		}
		p.mu.Unlock()
		if n := strings.Count(log.String(), "hung for its whole time limit"); n != c.want {
			t.Errorf("%s: said %d times, want %d: %s", c.name, n, c.want, &log)
		}
		if c.want > 0 && !strings.Contains(log.String(), "operation=step limit=5m0s slowest=10ms") {
			t.Errorf("%s: %s", c.name, &log)
		}
	}
}
