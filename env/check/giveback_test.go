package check_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/check"
)

// ledger passes requests to the handler next and counts the created and the open instances.
type ledger struct {
	next http.Handler

	mu   sync.Mutex
	made int
	open map[string]bool
}

var firstNumber = regexp.MustCompile(`\d+`)

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x, _ := carry(l.next, r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.status == 200 {
		switch {
		case strings.HasSuffix(x.path, "/create"):
			l.made++
			l.open[firstNumber.FindString(x.reply)] = true
		case strings.HasSuffix(x.path, "/close"):
			delete(l.open, firstNumber.FindString(x.body))
		}
	}
	w.Header().Set("Content-Type", x.kind)
	w.WriteHeader(x.status)
	io.WriteString(w, x.reply)
}

func keepsLedger(t *testing.T, name string) *ledger {
	t.Helper()
	l := &ledger{open: map[string]bool{}}
	if known, ok := standins[name]; ok {
		l.next = known.server(t, known.limit).Config.Handler
		return l
	}
	h, err := builtin.New(name, builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.next = h
	return l
}

// TestInstancesAreGivenBack checks that every instance is closed if the server supports closing, and is counted
// otherwise, and that a server with room for one instance receives one create.
func TestInstancesAreGivenBack(t *testing.T) {
	for name, want := range map[string]struct{ made, left int }{
		"textcraft": {6, 0}, "babyai": {6, 0}, "sciworld": {2, 0}, "searchqa": {6, 0}, "webarena": {2, 0},
		"maze": {6, 6}, "weather": {6, 6}, "sqlgym": {6, 6}, "todo": {1, 1}, "sheet": {1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := keepsLedger(t, name)
			server := httptest.NewServer(l)
			defer server.Close()
			report := run(t, check.Options{URL: server.URL, Env: name})
			if l.made != want.made || len(l.open) != want.left || report.Left != want.left {
				t.Errorf("got %d created, %d open and %d reported as open instances; want %d created, %d open", l.made, len(l.open), report.Left, want.made, want.left)
			}
			var b bytes.Buffer
			if err := report.Print(&b); err != nil {
				t.Fatal(err)
			}
			if printed := strings.Contains(b.String(), "remain open"); printed != (want.left > 0) {
				t.Errorf("the report prints the open instances: %t, want %t", printed, want.left > 0)
			}
		})
	}
}

// TestUnwantedInstancesAreGivenBack checks that Run also closes an instance created by an invalid request.
func TestUnwantedInstancesAreGivenBack(t *testing.T) {
	l := keepsLedger(t, "textcraft")
	l.next = bodyAlways(slashesJoined(l.next))
	server := httptest.NewServer(l)
	defer server.Close()
	report := run(t, check.Options{URL: server.URL, Env: "textcraft"})
	if l.made <= 6 || len(l.open) != 0 || report.Left != 0 {
		t.Errorf("%d made, %d open, %d reported", l.made, len(l.open), report.Left)
	}
}

// TestInterruptedGivesBack checks that an interrupted check closes its instances.
func TestInterruptedGivesBack(t *testing.T) {
	l := keepsLedger(t, "textcraft")
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/step") {
			cancel(why)
		}
		l.ServeHTTP(w, r)
	}))
	defer server.Close()
	if _, err := check.Run(ctx, check.Options{URL: server.URL, Env: "textcraft"}); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made == 0 || len(l.open) != 0 {
		t.Errorf("%d made, %d open", l.made, len(l.open))
	}
}

// TestLimitIsOptional checks that Run tests the instance limit, which disturbs other clients, only with Options.Limit.
func TestLimitIsOptional(t *testing.T) {
	l := keepsLedger(t, "sqlgym")
	server := httptest.NewServer(l)
	defer server.Close()
	report := run(t, check.Options{URL: server.URL, Env: "sqlgym"})
	if r := find(t, report, "instance limit"); r.Status != check.Skip || !strings.Contains(r.Reason, "--limit") {
		t.Errorf("%+v", r)
	}
	if known := standins["sqlgym"].limit; l.made > known {
		t.Errorf("%d instances were created on a server for %d", l.made, known)
	}
	report = run(t, check.Options{URL: server.URL, Env: "sqlgym", Limit: true})
	if !slices.ContainsFunc(report.Results, func(r check.Result) bool { return r.Check == "instance limit" && r.Status == check.Warn }) {
		t.Errorf("%+v", report.Results)
	}
}
