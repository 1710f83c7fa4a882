package env

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/openmanus/openmanus/data"
)

const (
	mazeAt   = `{"observation":"The goal is at position 8, 6. Your current position is at position 7, 6. There are walls to your right, to your left."}`
	mazeStay = `{"observation":"The goal is at position 8, 6. Your current position is at position 7, 6. There are walls to your right, to your left.","reward":0,"done":false}`
	mazeWon  = `{"observation":"Success\n","reward":1.0,"done":true}`
)

func open(t *testing.T, name string, o Options) Client {
	t.Helper()
	c, err := spec(name).New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// asError checks that err is a complete Error of the given kind, and returns it.
func asError(t *testing.T, err error, kind Kind) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, kind) {
		t.Fatalf("got %v, want %q", err, kind)
	}
	if e.Op == "" || e.URL == "" || !strings.Contains(e.Error(), e.URL) {
		t.Errorf("incomplete error %+v", e)
	}
	return e
}

// TestFailures checks each failure of a reset, which may be repeated, and of a step, which may not: the kind of the
// error, its text and the number of requests.
func TestFailures(t *testing.T) {
	tests := []struct {
		name  string
		reply reply
		kind  Kind
		words string
		again bool // whether a reset is repeated
	}{
		{name: "E1", reply: reply{Body: `{"error":"The task with environment 0 has finished."}`}, kind: KindEnvironment, words: "The task with environment 0 has finished."},
		{name: "E1 empty", reply: reply{Body: `{"error":""}`}, kind: KindEnvironment},
		{name: "E1 with an observation", reply: reply{Body: `{"observation":"x","reward":1,"done":true,"error":"no"}`}, kind: KindEnvironment, words: "no"},
		{name: "E1 not text", reply: reply{Body: `{"error":{"a":1}}`}, kind: KindEnvironment, words: `{"a":1}`},
		{name: "E2", reply: reply{Status: 500, Body: "Internal Server Error"}, kind: KindServer, words: "Internal Server Error", again: true},
		{name: "E2 503", reply: reply{Status: 503, Body: "busy"}, kind: KindServer, words: "busy", again: true},
		{name: "E3 pydantic 1", reply: reply{Status: 422, Body: `{"detail":[{"loc":["body","action"],"msg":"field required","type":"value_error.missing"}]}`}, kind: KindValidation, words: "field required"},
		{name: "E3 pydantic 2", reply: reply{Status: 422, Body: `{"detail":[{"type":"missing","loc":["body","action"],"msg":"Field required","input":{}}]}`}, kind: KindValidation, words: "Field required"},
		{name: "E4 404", reply: reply{Status: 404, Body: `{"detail":"Not Found"}`}, kind: KindRouting, words: "Not Found"},
		{name: "E4 405", reply: reply{Status: 405, Body: `{"detail":"Method Not Allowed"}`}, kind: KindRouting, words: "Method Not Allowed"},
		{name: "redirect", reply: reply{Status: 307, Head: map[string]string{"Location": "/maze/step"}}, kind: KindRouting},
		{name: "another success status", reply: reply{Status: 201, Body: mazeStay}, kind: KindMalformed},
		{name: "not JSON", reply: reply{Body: "<html>"}, kind: KindMalformed, words: "<html>"},
		{name: "empty", reply: reply{}, kind: KindMalformed},
		{name: "NaN", reply: reply{Body: `{"observation":"x","reward":NaN,"done":false}`}, kind: KindMalformed},
		{name: "not UTF-8", reply: reply{Body: "{\"observation\":\"\xff\",\"reward\":0,\"done\":false}"}, kind: KindMalformed},
		{name: "no observation", reply: reply{Body: `{"reward":0,"done":false}`}, kind: KindMalformed, words: `"reward"`},
		{name: "observation null", reply: reply{Body: `{"observation":null,"reward":0,"done":false}`}, kind: KindMalformed},
		{name: "observation a number", reply: reply{Body: `{"observation":4,"reward":0,"done":false}`}, kind: KindMalformed},
		{name: "an array", reply: reply{Body: `["x",null]`}, kind: KindMalformed},
		{name: "a bare string", reply: reply{Body: `"x"`}, kind: KindMalformed},
		{name: "too large", reply: reply{Body: `{"observation":"` + strings.Repeat("x", 5000) + `","reward":0,"done":false}`}, kind: KindOversize},
		{name: "closed mid-body", reply: reply{Body: mazeStay, Cut: true}, kind: KindConnection, again: true},
		{name: "reset", reply: reply{Drop: true}, kind: KindConnection, again: true},
		{name: "slow", reply: reply{Body: mazeStay, Hold: time.Minute}, kind: KindTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t, map[string][]reply{
				"POST /maze/create": ok(`{"id":0}`),
				"POST /maze/reset":  {tt.reply},
				"POST /maze/step":   {tt.reply},
			})
			var seen []data.Exchange
			o := quick(s.URL)
			o.Attempts, o.MaxReply = 3, 4096
			o.Record = func(x data.Exchange) { seen = append(seen, x) }
			if tt.kind == KindTimeout {
				o.Timeout = 100 * time.Millisecond
				s.Overlap = true // the step overlaps with the reset that timed out
			}
			c := open(t, "maze", o)

			_, err := c.Reset(context.Background(), 18)
			e := asError(t, err, tt.kind)
			if e.Op != "reset" || !strings.Contains(e.Words, tt.words) || !e.Sent || e.Retryable() != tt.again {
				t.Errorf("reset: %+v retryable %v", e, e.Retryable())
			}
			resets := 1
			if tt.again {
				resets = 3
			}
			if n := s.count("POST /maze/reset"); n != resets {
				t.Errorf("%d requests for the reset, want %d", n, resets)
			}

			r, err := c.Step(context.Background(), "Action: move up")
			e = asError(t, err, tt.kind)
			if e.Op != "step" || e.Retryable() || !e.Sent || !r.Sent || r.Action != "move up" {
				t.Errorf("step: %+v, result %+v", e, r)
			}
			if n := s.count("POST /maze/step"); n != 1 {
				t.Errorf("got %d requests for the step, want 1: a sent step must never be repeated", n)
			}

			if len(seen) != 1+resets+1 {
				t.Fatalf("%d exchanges recorded", len(seen))
			}
			last := seen[len(seen)-1]
			if last.Method != "POST" || last.Path != "/maze/step" || last.Body != `{"action":"move up","id":0}` {
				t.Errorf("recorded %+v", last)
			}
			bare := tt.kind == KindMalformed && strings.HasPrefix(tt.reply.Body, "{") && strings.Contains(tt.name, "observation") ||
				tt.name == "an array" || tt.name == "a bare string"
			if !bare && last.Err == "" {
				t.Error("the recorded failed exchange has no error")
			}
		})
	}
}

func TestMissingKeys(t *testing.T) {
	for key, body := range map[string]string{
		"reward":      `{"observation":"x","done":false}`,
		"done":        `{"observation":"x","reward":0}`,
		"observation": `{"reward":0,"done":true}`,
	} {
		s := newScript(t, map[string][]reply{"POST /maze/create": ok(`{"id":0}`), "POST /maze/step": ok(body)})
		_, err := open(t, "maze", quick(s.URL)).Step(context.Background(), "x")
		if e := asError(t, err, KindMalformed); !strings.Contains(e.Error(), key) {
			t.Errorf("%s: %v", key, e)
		}
	}
	for _, body := range []string{`{}`, `{"id":null}`, `{"id":"x"}`, `3`, `{"id":1.5}`} {
		s := newScript(t, map[string][]reply{"POST /maze/create": ok(body)})
		c, err := spec("maze").New(context.Background(), quick(s.URL))
		asError(t, err, KindMalformed)
		if c != nil {
			t.Errorf("New returned a client for the reply %s to create", body)
		}
	}
}

func TestRepeatUntilItWorks(t *testing.T) {
	bad := []reply{{Status: 500}, {Drop: true}, {Body: mazeAt, Cut: true}}
	s := newScript(t, map[string][]reply{
		"POST /maze/create": append(append([]reply(nil), bad...), reply{Body: `{"id":4}`}),
		"POST /maze/reset":  append(append([]reply(nil), bad...), reply{Body: mazeAt}),
		"POST /maze/step":   ok(mazeWon),
	})
	c := open(t, "maze", quick(s.URL))
	if _, err := c.Reset(context.Background(), 18); err != nil {
		t.Fatal(err)
	}
	r, err := c.Step(context.Background(), "move down")
	if err != nil || r.Reward != 1 || !r.Done {
		t.Fatalf("%+v, %v", r, err)
	}
	if s.count("POST /maze/create") != 4 || s.count("POST /maze/reset") != 4 || s.count("POST /maze/step") != 1 {
		t.Errorf("requests %q", s.Requests())
	}
}

// TestDialFailure checks that a step may be repeated after a refused connection, because nothing was sent.
func TestDialFailure(t *testing.T) {
	s := newScript(t, map[string][]reply{"POST /maze/create": ok(`{"id":0}`)})
	var seen []data.Exchange
	o := quick(s.URL)
	o.Attempts = 3
	o.Record = func(x data.Exchange) { seen = append(seen, x) }
	c := open(t, "maze", o).(*instance)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.base = "http://" + ln.Addr().String()
	ln.Close()
	r, err := c.Step(context.Background(), "move up")
	e := asError(t, err, KindConnection)
	if e.Sent || !e.Retryable() || r.Sent || !strings.Contains(e.Error(), "is the server running?") {
		t.Errorf("%v, %+v, result %+v", e, e, r)
	}
	if len(seen) != 4 || seen[3].Status != 0 || seen[3].Err == "" || seen[3].Server != c.base || seen[0].Server != s.URL+"/maze" {
		t.Errorf("recorded %+v", seen)
	}
}

func TestStep503Hook(t *testing.T) {
	s := newScript(t, map[string][]reply{
		"POST /maze/create": ok(`{"id":0}`),
		"POST /maze/step":   {{Status: 503}, {Status: 503}, {Body: mazeStay}, {Status: 500}},
	})
	c := open(t, "maze", quick(s.URL)).(*instance)
	c.server.stepRetry503 = true
	if _, err := c.Step(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	_, err := c.Step(context.Background(), "b")
	asError(t, err, KindServer)
	if n := s.count("POST /maze/step"); n != 4 {
		t.Errorf("%d steps", n)
	}
}

func TestCancel(t *testing.T) {
	s := newScript(t, map[string][]reply{
		"POST /maze/create": ok(`{"id":0}`),
		"POST /maze/reset":  {{Hold: time.Minute}},
	})
	c := open(t, "maze", quick(s.URL))
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	_, err := c.Reset(ctx, 1)
	if e := asError(t, err, KindCancelled); !errors.Is(err, why) || e.Retryable() || ServerFault(err) {
		t.Errorf("%v", err)
	}
}

func TestBusy(t *testing.T) {
	s := newScript(t, map[string][]reply{
		"POST /maze/create": ok(`{"id":0}`),
		"POST /maze/step":   {{Body: mazeStay, Hold: 200 * time.Millisecond}},
	})
	c := open(t, "maze", quick(s.URL)).(*instance)
	done := make(chan error)
	go func() {
		_, err := c.Step(context.Background(), "move up")
		done <- err
	}()
	for !c.busy.Load() {
		time.Sleep(time.Millisecond)
	}
	if _, err := c.Step(context.Background(), "move up"); !errors.Is(err, ErrBusy) {
		t.Errorf("second step: %v", err)
	}
	if _, err := c.Reset(context.Background(), 1); !errors.Is(err, ErrBusy) {
		t.Errorf("reset during a step: %v", err)
	}
	if err := c.Close(context.Background()); !errors.Is(err, ErrBusy) {
		t.Errorf("close during a step: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestKeepAlive(t *testing.T) {
	if shared.IdleConnTimeout <= 0 || shared.IdleConnTimeout >= 5*time.Second {
		t.Errorf("idle connections are kept for %v, want less than the 5 s of uvicorn", shared.IdleConnTimeout)
	}
	s := newScript(t, map[string][]reply{
		"POST /maze/create": ok(`{"id":0}`),
		"POST /maze/reset":  ok(mazeAt),
		"POST /maze/step":   {{Body: mazeStay}, {Body: `{"error":"e"}`}, {Status: 500}, {Body: mazeStay}},
	})
	c := open(t, "maze", quick(s.URL))
	opened := 0
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused {
			opened++
		}
	}})
	c.Reset(ctx, 1)
	for range 5 {
		c.Step(ctx, "x")
	}
	if requests := len(s.Requests()); requests != 7 || opened != 0 {
		t.Errorf("%d requests, want 7; %d new connections, want 0", requests, opened)
	}
}

func TestErrorText(t *testing.T) {
	e := &Error{Kind: KindEnvironment, Op: "reset", URL: "http://h/maze/reset", Status: 200}
	if got := e.Error(); got != "environment reset: http://h/maze/reset: environment error: the server gave an empty error text" {
		t.Error(got)
	}
}

func TestSeen(t *testing.T) {
	for want, e := range map[string]*Error{
		"http_500":          {Kind: KindServer, Status: 500},
		"http_422":          {Kind: KindValidation, Status: 422},
		"http_404":          {Kind: KindRouting, Status: 404},
		"timeout":           {Kind: KindTimeout, Sent: true},
		"reset":             {Kind: KindConnection, Sent: true},
		"truncated":         {Kind: KindConnection, Sent: true, Status: 200},
		"refused":           {Kind: KindConnection},
		"restarted":         {Kind: KindConnection, Err: ErrRestarted},
		"malformed":         {Kind: KindMalformed, Status: 200},
		"oversize":          {Kind: KindOversize, Status: 200},
		"environment_error": {Kind: KindEnvironment, Status: 200},
		"":                  {Kind: KindCancelled},
	} {
		if got := e.Seen(); got != want {
			t.Errorf("%v counts as %q, want %q", e.Kind, got, want)
		}
	}
}

// TestTimeouts checks that each operation has its time limit. The time that a call waits for the gate does not count.
func TestTimeouts(t *testing.T) {
	usual := 30 * time.Second
	own := Timeouts{Create: time.Second, Step: 2 * time.Second}
	for op, want := range map[string]time.Duration{
		OpCreate: time.Second, OpStep: 2 * time.Second, OpReset: usual, OpObserve: usual, OpClose: DefaultCloseTimeout,
	} {
		if got := own.of(op, usual); got != want {
			t.Errorf("%s: %v, want %v", op, got, want)
		}
	}
	if got := (Timeouts{}).of(OpClose, time.Second); got != time.Second {
		t.Errorf("close: %v, want the limit of all calls", got)
	}

	s := newScript(t, map[string][]reply{"POST /create": ok(`{"id":0}`), "POST /step": {{Body: "{}", Hold: time.Minute}}})
	gate := make(chan struct{}, 1)
	client, err := spec("textcraft").New(context.Background(), Options{BaseURL: s.URL, Timeouts: Timeouts{Step: time.Millisecond}, Gate: gate})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Step(context.Background(), "Action: x"); !errors.Is(err, KindTimeout) {
		t.Errorf("a step with a time limit: %v", err)
	}
	gate <- struct{}{}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Step(ctx, "Action: x"); !errors.Is(err, KindCancelled) {
		t.Errorf("a step that waits for the gate: %v", err)
	}
}
