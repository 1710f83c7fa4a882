package check_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/check"
)

// run checks a server and logs the report if the test fails.
func run(t *testing.T, o check.Options) *check.Report {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Idle == 0 {
		o.Idle = time.Millisecond
	}
	o.Steps = 5
	report, err := check.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() || testing.Verbose() {
			var b strings.Builder
			if err := report.Print(&b); err != nil {
				t.Error(err)
			}
			t.Log(b.String())
		}
	})
	return report
}

// none fails the test unless the checks with status s are exactly the checks named in its last argument.
func none(t *testing.T, report *check.Report, s check.Status, except ...string) {
	t.Helper()
	allowed := map[string]bool{}
	for _, name := range except {
		allowed[name] = true
	}
	for _, r := range report.Results {
		if r.Status == s && !allowed[r.Check] {
			t.Errorf("%s: %s: %s (%s)", r.Check, s, r.Came, r.Reason)
		}
		if r.Status != s && allowed[r.Check] {
			t.Errorf("%s: %s, want %s", r.Check, r.Status, s)
		}
	}
}

// TestBuiltinServers checks that no check of a built-in server fails or is skipped, and that it gets the same warnings
// as AgentGym's servers.
func TestBuiltinServers(t *testing.T) {
	for name, warns := range map[string][]string{
		"maze":      {"close"},
		"textcraft": nil,
		"wordle":    {"close"},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := builtin.Serve(context.Background(), name, "127.0.0.1:0", builtin.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close(context.Background())
			report := run(t, check.Options{URL: server.URL, Env: name})
			none(t, report, check.Fail)
			none(t, report, check.Skip)
			none(t, report, check.Warn, warns...)
			if l := report.Latency["step"]; l.Calls < 5 || l.Max < l.P50 {
				t.Errorf("latency of a step: %+v", l)
			}
		})
	}
	for _, name := range builtin.Names() {
		if _, err := check.Run(context.Background(), check.Options{URL: "http://127.0.0.1:1", Env: name, Timeout: time.Second}); err != nil {
			t.Errorf("%s cannot be checked: %v", name, err)
		}
	}
}
