package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMemory(t *testing.T) {
	const metrics = `{"step":0,"perf/rss_bytes":10}
{"step":50,"perf/rss_bytes":100}
{"step":200,"perf/rss_bytes":104}
{"step":201,"perf/rss_bytes":300}
{"step":202}
`
	for _, tt := range []struct {
		name   string
		to     int
		steady bool
		err    string
	}{
		{"steady", 200, true, ""},
		{"grows", 201, false, ""},
		{"not recorded", 202, false, "no perf/rss_bytes of step 202"},
		{"not reached", 400, false, "no perf/rss_bytes of step 400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := measureMemory(strings.NewReader(metrics), 50, tt.to, 1.05)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || m.Steady != tt.steady {
				t.Errorf("got %+v (error %v), want steady %t", m, err, tt.steady)
			}
		})
	}
	if _, err := measureMemory(strings.NewReader("{"), 1, 2, 1); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a line of broken JSON: got error %v, want one with its number", err)
	}
}

func TestMemoryCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	if err := os.WriteFile(path, []byte(`{"step":1,"perf/rss_bytes":1e6}`+"\n"+`{"step":2,"perf/rss_bytes":2e6}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		want string
		err  error
	}{
		{"memory --from=1 --to=2", "NOT kept", errFailed},
		{"memory --from=1 --to=2 --limit=2", "at most 2.000 allowed: kept", nil},
		{"memory --json --from=1 --to=2 --limit=2", `"steady": true`, nil},
	} {
		var out strings.Builder
		if err := run(t.Context(), append(strings.Fields(tt.args), path), &out, t.Output()); !errors.Is(err, tt.err) {
			t.Errorf("%s: got error %v, want %v", tt.args, err, tt.err)
		}
		if !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s printed %s, want %q", tt.args, &out, tt.want)
		}
	}
}
