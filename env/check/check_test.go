package check_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/check"
)

// find returns the result of the check called name.
func find(t *testing.T, report *check.Report, name string) check.Result {
	t.Helper()
	for _, r := range report.Results {
		if r.Check == name {
			return r
		}
	}
	t.Fatalf("no check %q", name)
	return check.Result{}
}

// TestHangingServer checks that a hanging server fails, and that Run ends after three calls that exceed the time limit.
func TestHangingServer(t *testing.T) {
	maze, err := builtin.New("maze", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hang := func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // net/http notices the end of the connection only after the body is read
		<-r.Context().Done()
	}
	for name, tt := range map[string]struct {
		handler http.Handler
		failed  string
		skipped string
		because string
	}{
		"every call":      {http.HandlerFunc(hang), "greeting", "reset", "no instance"},
		"every step":      {instead("/step", hang)(maze), "step", "two sessions", "no episode"},
		"after some time": {onlyFirst(40, maze, hang), "", "keep-alive", "exceeded the time limit"},
		"dribbles": {instead("/step", func(w http.ResponseWriter, r *http.Request) {
			// This server sends single bytes slowly. A time limit for each read would not detect it.
			w.Header().Set("Content-Length", "1000")
			for r.Context().Err() == nil {
				w.Write([]byte(" "))
				w.(http.Flusher).Flush()
				time.Sleep(5 * time.Millisecond)
			}
		})(maze), "step", "two sessions", "no episode"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tt.handler)
			defer server.Close()
			report := run(t, check.Options{URL: server.URL, Env: "maze", Timeout: 100 * time.Millisecond})
			if tt.failed != "" {
				if r := find(t, report, tt.failed); r.Status != check.Fail || !strings.Contains(r.Came, "time limit") {
					t.Errorf("%+v", r)
				}
			}
			if r := find(t, report, tt.skipped); r.Status != check.Skip || !strings.Contains(r.Reason, tt.because) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// onlyFirst answers the first n requests, then hangs.
func onlyFirst(n int64, good http.Handler, hang http.HandlerFunc) http.Handler {
	var seen atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen.Add(1) > n {
			hang(w, r)
			return
		}
		good.ServeHTTP(w, r)
	})
}

// TestSilentPort checks that Run reports a hanging server if a port accepts connections and never replies.
func TestSilentPort(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	report := run(t, check.Options{URL: "http://" + ln.Addr().String(), Env: "textcraft", Timeout: 50 * time.Millisecond})
	if r := find(t, report, "greeting"); r.Status != check.Fail || report.Unreachable {
		t.Errorf("%+v, unreachable %t", r, report.Unreachable)
	}
}

func TestNoServer(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	report := run(t, check.Options{URL: gone.URL, Env: "maze"})
	if !report.Unreachable || report.Count(check.Fail) != 1 || report.Count(check.Pass) != 0 {
		t.Errorf("%+v", report)
	}
}

// TestInterrupted checks that Run ends in the middle of a call when the caller's context ends.
func TestInterrupted(t *testing.T) {
	asked := make(chan struct{})
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(asked) })
		<-r.Context().Done()
	}))
	defer server.Close()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() { <-asked; cancel(why) }()
	if _, err := check.Run(ctx, check.Options{URL: server.URL, Env: "maze", Timeout: time.Hour}); !errors.Is(err, why) {
		t.Errorf("got error %v, want the cause of the context's end", err)
	}
}

// TestUnavailableForAMoment checks that status 503 before a request is executed is a warning for sqlgym, whose clients
// send the request again. For other servers it is a failure (TestDefectsAreFound).
func TestUnavailableForAMoment(t *testing.T) {
	good := standins["sqlgym"].server(t, 8)
	var n atomic.Int64
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/step" && r.Header.Get("Content-Type") == "application/json" && n.Add(1)%7 == 1 {
			w.WriteHeader(503)
			return
		}
		good.Config.Handler.ServeHTTP(w, r)
	}))
	defer busy.Close()
	report := run(t, check.Options{URL: busy.URL, Env: "sqlgym"})
	if r := find(t, report, "step"); r.Status != check.Warn || !strings.Contains(r.Came, "status 503") {
		t.Errorf("%+v", r)
	}
}

// TestIdleConnection checks that the check of an idle connection only depends on whether the connection stays open for
// Options.Idle, however long the other checks take.
func TestIdleConnection(t *testing.T) {
	h, err := builtin.New("maze", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		idle time.Duration // Options.Idle
		drop time.Duration // the server drops an idle connection after this time; 0: at the last request
		want check.Status
	}{
		"dropped after a check that took longer": {time.Millisecond, 0, check.Pass},
		"dropped after a check that was shorter": {time.Minute, 3 * time.Second, check.Warn},
	} {
		t.Run(name, func(t *testing.T) {
			var server *httptest.Server
			var mu sync.Mutex
			var idle []net.Conn
			server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.drop == 0 && r.URL.Path == "/maze/close" {
					mu.Lock()
					for _, conn := range idle {
						conn.Close()
					}
					idle = nil
					mu.Unlock()
				}
				h.ServeHTTP(w, r)
			}))
			server.Config.IdleTimeout = tt.drop
			server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
				mu.Lock()
				defer mu.Unlock()
				if state == http.StateIdle {
					idle = append(idle, conn)
				}
			}
			server.Start()
			defer server.Close()
			report := run(t, check.Options{URL: server.URL, Env: "maze", Idle: tt.idle})
			if r := find(t, report, "keep-alive"); r.Status != tt.want {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestIdleConnectionDropped checks that Run detects a connection that the server drops during the other checks.
func TestIdleConnectionDropped(t *testing.T) {
	h, err := builtin.New("maze", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	server.Config.IdleTimeout = time.Millisecond
	server.Start()
	defer server.Close()
	report := run(t, check.Options{URL: server.URL, Env: "maze", Idle: time.Minute})
	if r := find(t, report, "keep-alive"); r.Status != check.Warn {
		t.Errorf("%+v", r)
	}
}

func TestOptions(t *testing.T) {
	for name, tt := range map[string]struct {
		o    check.Options
		want string
	}{
		"environment": {check.Options{URL: "http://127.0.0.1:1", Env: "mase"}, "maze"},
		"address":     {check.Options{URL: "127.0.0.1:1", Env: "maze"}, "environment server address"},
		"one task":    {check.Options{URL: "http://127.0.0.1:1", Env: "maze", Tasks: []int{1}}, "two different"},
		"same tasks":  {check.Options{URL: "http://127.0.0.1:1", Env: "maze", Tasks: []int{1, 1}}, "two different"},
	} {
		if _, err := check.Run(context.Background(), tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Options.Tasks replaces the default tasks. The server has only three tasks.
	few := standins["sqlgym"].standin
	few.tasks = 3
	report := run(t, check.Options{URL: few.server(t, 8).URL, Env: "sqlgym", Tasks: []int{0, 2}})
	none(t, report, check.Fail)
	report = run(t, check.Options{URL: few.server(t, 8).URL, Env: "sqlgym"})
	if report.Count(check.Fail) == 0 {
		t.Error("no check fails for tasks that do not exist on the server")
	}
}

// TestReport checks that the table has a line for each result, followed by the full text of shortened lines, and that
// JSON contains the same results.
func TestReport(t *testing.T) {
	r := &check.Report{
		URL: "http://h:1/maze", Env: "maze", Requests: 12, Seconds: 0.5,
		Latency: map[string]check.Latency{"step": {Calls: 3, P50: 1, P90: 2, P99: 3, Max: 3.25}},
		Results: []check.Result{
			{Check: "create", Status: check.Pass, Protocol: "AgentGym protocol 5.5", Expected: "an id", Came: "id 0"},
			{Check: "step", Status: check.Fail, Protocol: "AgentGym protocol 5.5", Expected: "a reply", Came: strings.Repeat("long ", 30) + "end"},
			{Check: "close", Status: check.Warn, Protocol: "AgentGym protocol 11.6", Expected: "closed", Came: "status 404", Reason: "so it is"},
		},
	}
	var b bytes.Buffer
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"RESULT  CHECK   PROTOCOL  EXPECTED  RECEIVED\n", "PASS    create  5.5       an id     id 0\n", "FAIL step (AgentGym protocol 5.5)\n", "long end\n",
		"  reason    so it is\n", "1 passed, 1 warnings, 1 failed, 0 skipped; 12 requests in 0.5 s\n", "step      3  1.0  2.0  3.0  3.2",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"check":"step","status":"FAIL","protocol":"AgentGym protocol 5.5","expected":"a reply"`, `"p99_ms":3`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
}
