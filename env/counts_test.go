package env

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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

// A server that greets stays in service unless it does nothing else: only a row
// of failures takes it out, and one good exchange ends the row.
func TestRowOfFailures(t *testing.T) {
	answers := func(codes ...int) (list []reply) {
		for _, code := range codes {
			body := `{"observation":"","reward":0,"done":false}`
			if code != http.StatusOK {
				body = "no"
			}
			list = append(list, reply{status: code, body: body})
		}
		return list
	}
	for _, c := range []struct {
		name  string
		steps []int
		after int
		want  int64 // quarantines
	}{
		{"never three in a row", []int{500, 500, 200, 500, 500, 200}, 3, 0},
		{"three in a row", []int{500, 200, 500, 500, 500, 200}, 3, 1},
		{"nine in a row", []int{500, 500, 500, 500, 500, 500, 500, 500, 500, 200}, 0, 0},
		{"ten in a row", []int{500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 200}, 0, 1},
		{"every one counts", []int{500, 200, 500, 200}, 1, 2},
		{"what was refused is not the server's fault", []int{422, 422, 422, 422}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t, map[string][]reply{
				"POST /create": ok(`{"id":0}`), "POST /play": answers(c.steps...), "GET /": ok(`"up"`), "POST /close": ok("true"),
			})
			s.overlap = true // a probe may come at any time
			p := newPool(t, PoolOptions{QuarantineAfter: c.after}, s.URL)
			l := acquire(t, p)
			faults := map[string]int64{}
			for _, code := range c.steps {
				until(t, "the server is in service", func() bool { return !p.servers[0].isDown(p) })
				_, err := l.Client().Step(context.Background(), "")
				if (err == nil) != (code == http.StatusOK) {
					t.Fatalf("status %d gave %v", code, err)
				}
				var e *Error
				if errors.As(err, &e) {
					faults[e.Seen()]++
				}
			}
			l.Fail(&Error{Kind: KindServer, watched: true}) // was counted when it happened
			got := p.Counts()
			if got.Quarantines != c.want {
				t.Errorf("%d quarantines, want %d", got.Quarantines, c.want)
			}
			if d := cmp.Diff(faults, got.Faults); d != "" {
				t.Errorf("met (-) and counted (+): %s", d)
			}
			if got.Exchanges < int64(len(c.steps))+1 || got.Instances != 1 {
				t.Errorf("counts %+v", got)
			}
		})
	}
}

// Calls have limits of their own, and waiting for one's turn at a server that
// takes one request at a time is no part of them.
func TestTimeouts(t *testing.T) {
	usual := 30 * time.Second
	own := Timeouts{Create: time.Second, Step: 2 * time.Second}
	for op, want := range map[string]time.Duration{
		opCreate: time.Second, opStep: 2 * time.Second, opReset: usual, opObserve: usual, opClose: DefaultCloseTimeout,
	} {
		if got := own.of(op, usual); got != want {
			t.Errorf("%s: %v, want %v", op, got, want)
		}
	}
	if got := (Timeouts{}).of(opClose, time.Second); got != time.Second {
		t.Errorf("close: %v, longer than any other call", got)
	}

	s := newScript(t, map[string][]reply{"POST /create": ok(`{"id":0}`), "POST /play": {{body: "{}", hold: time.Minute}}})
	gate := make(chan struct{}, 1)
	client, err := crowdSpec.New(context.Background(), Options{BaseURL: s.URL, Timeouts: Timeouts{Step: time.Millisecond}, gate: gate})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Step(context.Background(), ""); !errors.Is(err, KindTimeout) {
		t.Errorf("a step of a limit of its own: %v", err)
	}
	gate <- struct{}{}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Step(ctx, ""); !errors.Is(err, KindCancelled) {
		t.Errorf("a step that waits for its turn: %v", err)
	}
}

// An exchange counts once, whatever became of it.
func TestWatchedOnce(t *testing.T) {
	s := newScript(t, map[string][]reply{
		"POST /create": {{drop: true}, {body: `{"id":0}`}},
		"POST /play":   {{cut: true, body: `{"observation":""}`}, {body: `[]`, head: map[string]string{injectedHeader: "slow"}}},
		"GET /":        ok(`"up"`), "POST /close": ok("true"),
	})
	s.overlap = true
	p := newPool(t, PoolOptions{}, s.URL)
	l := acquire(t, p)
	_, lost := l.Client().Step(context.Background(), "")
	if _, err := l.Client().Step(context.Background(), ""); err != nil {
		t.Error(err)
	}
	l.Fail(lost)
	want := map[string]int64{SeenReset: 1, SeenTruncated: 1, SeenSlow: 1}
	if d := cmp.Diff(want, p.Counts().Faults); d != "" {
		t.Error(d)
	}
}

func TestCountsSince(t *testing.T) {
	before := Counts{Exchanges: 5, Instances: 1, Faults: map[string]int64{SeenReset: 2, SeenSlow: 1}}
	now := Counts{Exchanges: 9, Instances: 1, Quarantines: 2, Faults: map[string]int64{SeenReset: 2, SeenSlow: 4, SeenTimeout: 1}}
	want := Counts{Exchanges: 4, Quarantines: 2, Faults: map[string]int64{SeenSlow: 3, SeenTimeout: 1}}
	got := now.Since(before)
	if d := cmp.Diff(want, got); d != "" || got.AllFaults() != 4 {
		t.Errorf("%d faults, -want +got:\n%s", got.AllFaults(), d)
	}
	if d := cmp.Diff(now, now.Since(Counts{})); d != "" {
		t.Errorf("since the start: -want +got:\n%s", d)
	}
}
