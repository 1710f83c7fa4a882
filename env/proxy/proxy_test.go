package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/fault"
	"github.com/openmanus/openmanus/env/pool"
	"github.com/openmanus/openmanus/env/proxy"
)

// tests runs the tests and closes the connections of the shared transport before the leak check.
type tests struct{ m *testing.M }

func (t tests) Run() int {
	code := t.m.Run()
	env.CloseIdle()
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

// serve starts a proxy in front of a handler.
func serve(t *testing.T, h http.Handler, faults string, journal io.Writer) *proxy.Server {
	t.Helper()
	plan, err := fault.Parse(faults)
	if err != nil {
		t.Fatal(err)
	}
	up := httptest.NewServer(h)
	t.Cleanup(up.Close)
	s, err := proxy.Serve(context.Background(), "127.0.0.1:0", proxy.Options{Upstream: up.URL, Plan: plan, Journal: journal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// seen returns the kind of fault that a client sees in a recorded exchange.
func seen(x data.Exchange) string {
	switch {
	case x.Err == "":
		return ""
	case strings.Contains(x.Err, string(env.KindTimeout)):
		return "hang"
	case strings.Contains(x.Err, string(env.KindConnection)) && x.Status == 0:
		return "reset"
	case strings.Contains(x.Err, string(env.KindConnection)):
		return "truncate"
	case x.Status >= 400:
		return strconv.Itoa(x.Status)
	}
	return "other: " + x.Err
}

// TestNoFaultsInDescription checks that requests for the description of a server get no faults, since pools do not
// count failures of these requests.
func TestNoFaultsInDescription(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"info":{"title":"Craft","version":"`+r.URL.Path+`"}}`)
	}), "500:1", nil)
	spec, err := env.Lookup("maze")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pool.New(spec, []string{s.URL}, pool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := pool.Version(t.Context())
	if want := "Craft " + env.DescriptionPath; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if counts := s.Counts(); len(counts.Faults) > 0 {
		t.Errorf("the proxy counts %v", counts.Faults)
	}
	if err := pool.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestPoolCountsAgree checks that a pool and the proxy have the same counts, with all kinds of faults at once.
func TestPoolCountsAgree(t *testing.T) {
	h, err := builtin.New("maze", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, h, "500:0.04,503:0.03,hang:0.02,slow:1ms:0.2,truncate:0.04,reset:0.04,duplicate:0.2,seed=5", nil)
	spec, err := env.Lookup("maze")
	if err != nil {
		t.Fatal(err)
	}
	// The timeout is long, so that a slow reply of a busy machine does not count as a hang.
	pool, err := pool.New(spec, []string{s.URL}, pool.Options{
		Client: env.Options{Timeout: 4 * time.Second, Backoff: time.Millisecond}, ProbePause: time.Millisecond, ProbeMax: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 24 {
		wg.Go(func() {
			for i := range 4 {
				l, err := pool.Acquire(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				_, err = l.Client().Reset(context.Background(), (g+i)%builtin.MazeGames)
				for n := 0; err == nil && n < 4; n++ {
					_, err = l.Client().Step(context.Background(), "Action: p a n i c")
				}
				l.Fail(err) // the next Acquire creates an instance, so that creates get faults too
			}
		})
	}
	wg.Wait()
	if err := pool.Close(context.Background()); err != nil {
		t.Error(err)
	}
	kinds := map[string]string{
		"500": "http_500", "503": "http_503", "hang": env.SeenTimeout, "slow": env.SeenSlow,
		"truncate": env.SeenTruncated, "reset": env.SeenReset, "duplicate": env.SeenDuplicate,
	}
	got, want := pool.Counts(), map[string]int64{}
	for kind, n := range s.Counts().Faults {
		if proxy.SeenAs(kind) != kinds[kind] {
			t.Errorf("SeenAs(%s) = %s", kind, proxy.SeenAs(kind))
		}
		want[proxy.SeenAs(kind)] = int64(n)
	}
	if d := cmp.Diff(want, got.Faults); d != "" {
		t.Errorf("injected (-) and counted (+): %s", d)
	}
	if len(want) != len(kinds) {
		t.Errorf("not every kind of fault was injected: %v", want)
	}
	if got.Exchanges > s.Counts().Requests { // the proxy also counts probes
		t.Errorf("the pool counts %d exchanges, the proxy %+v", got.Exchanges, s.Counts())
	}
}

// tally counts the faults that clients see in recorded exchanges and in reply headers. It is the transport of the
// clients.
type tally struct {
	mu        sync.Mutex
	faults    map[string]int
	exchanges int
	headers   map[string]int
	next      http.RoundTripper
}

func (c *tally) record(x data.Exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchanges++
	if kind := seen(x); kind != "" {
		c.faults[kind]++
	}
}

func (c *tally) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, name := range resp.Header[fault.Header] {
			c.headers[name]++
		}
	}
	return resp, err
}

func (c *tally) CloseIdleConnections() { c.next.(*http.Transport).CloseIdleConnections() }

// play plays episodes of an environment through the proxy at url with concurrent clients.
func play(t *testing.T, name, url string, episodes int, timeout time.Duration) *tally {
	t.Helper()
	spec, err := env.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	c := &tally{faults: map[string]int{}, headers: map[string]int{}, next: &http.Transport{IdleConnTimeout: time.Second, MaxIdleConnsPerHost: 64}}
	hc := &http.Client{Transport: c}
	defer hc.CloseIdleConnections()
	o := env.Options{BaseURL: url, Timeout: timeout, Attempts: 8, Backoff: time.Millisecond, Record: c.record, Client: hc}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 12)
	for i := range episodes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			client, err := spec.New(context.Background(), o)
			if err != nil {
				return
			}
			if _, err := client.Reset(context.Background(), i%builtin.MazeGames); err != nil {
				return
			}
			for range 5 {
				if _, err := client.Step(context.Background(), "Action: p a n i c"); err != nil && !env.ServerFault(err) {
					return // the game has ended
				}
			}
		})
	}
	wg.Wait()
	return c
}

// TestCountsAgree checks that the proxy's counts, its journal and the faults that clients see agree for every kind, for
// an environment with GET requests and one without.
func TestCountsAgree(t *testing.T) {
	for _, name := range []string{"maze", "wordle"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the test mostly waits
			h, err := builtin.New(name, builtin.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var journal bytes.Buffer
			s := serve(t, h, "500:0.05,503:0.05,hang:0.015,truncate:0.08,reset:0.08,seed=11", &journal)
			// The timeout is long, so that a slow reply of a busy machine does not count as a hang.
			c := play(t, name, s.URL, 60, 10*time.Second)
			got := s.Counts()
			if diff := cmp.Diff(got.Faults, c.faults); diff != "" {
				t.Errorf("injected faults (-) and faults seen by clients (+) differ:\n%s", diff)
			}
			for _, kind := range []string{"500", "503", "hang", "truncate", "reset"} {
				if got.Faults[kind] == 0 {
					t.Errorf("no %s was injected", kind)
				}
			}
			if got.Requests != int64(c.exchanges) || got.UpstreamErrors != 0 {
				t.Errorf("the proxy counts %+v, the clients %d exchanges", got, c.exchanges)
			}
			// The journal contains the same faults.
			written := map[string]int{}
			for line := range strings.Lines(journal.String()) {
				var e struct {
					Time, Kind, Method, Path string
					Request                  int64
				}
				if err := json.Unmarshal([]byte(line), &e); err != nil || e.Time == "" || e.Method == "" || !strings.HasPrefix(e.Path, "/"+name+"/") || e.Request < 1 || e.Request > got.Requests {
					t.Errorf("%s: %v", line, err)
				}
				written[e.Kind]++
			}
			if diff := cmp.Diff(got.Faults, written); diff != "" {
				t.Errorf("injected faults (-) and faults in the journal (+) differ:\n%s", diff)
			}
			// GET /__faults returns the same counts.
			reply, err := get(s.URL + proxy.CountsPath)
			var served proxy.Counts
			if err != nil || json.Unmarshal([]byte(reply), &served) != nil {
				t.Fatalf("%s, %v", reply, err)
			}
			if diff := cmp.Diff(got, served); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSlowAndDuplicate checks that pauses and duplicates are listed in the header of replies, and that the server
// receives the duplicates.
func TestSlowAndDuplicate(t *testing.T) {
	h, err := builtin.New("wordle", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	arrived := 0
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		arrived++
		mu.Unlock()
		h.ServeHTTP(w, r)
	}), "slow:5ms:0.2,duplicate:0.4,seed=3", nil)
	c := play(t, "wordle", s.URL, 20, 10*time.Second)
	got := s.Counts()
	if diff := cmp.Diff(got.Faults, c.headers); diff != "" {
		t.Errorf("injected faults (-) and faults seen by clients (+) differ:\n%s", diff)
	}
	if len(c.faults) > 0 {
		t.Errorf("clients saw failures: %v", c.faults)
	}
	if got.Faults["slow"] == 0 || got.Faults["duplicate"] == 0 {
		t.Errorf("want both slow and duplicate injected, got %v", got.Faults)
	}
	if mu.Lock(); arrived != c.exchanges+got.Faults["duplicate"] {
		t.Errorf("the server received %d requests for %d exchanges and %d duplicates", arrived, c.exchanges, got.Faults["duplicate"])
	}
	mu.Unlock()
}

func get(url string) (string, error) {
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// TestForwards checks that the proxy forwards requests and replies unmodified.
func TestForwards(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/x-test")
		w.WriteHeader(418)
		io.WriteString(w, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Content-Type")+" "+string(body)+r.Header.Get("X-Forwarded-For"))
	}))
	defer up.Close()
	for base, want := range map[string]string{"": "", "/": "", "/below/": "/below"} {
		s, err := proxy.Serve(context.Background(), "127.0.0.1:0", proxy.Options{Upstream: up.URL + base})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequest("PUT", s.URL+"/a//b%2Fc/?x=1;2&y", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "text/odd")
		tr := &http.Transport{DisableKeepAlives: true}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 418 || resp.Header.Get("Content-Type") != "application/x-test" || string(got) != "PUT "+want+"/a//b%2Fc/?x=1;2&y text/odd body" {
			t.Errorf("%d %v %q (%v)", resp.StatusCode, resp.Header, got, err)
		}
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:1", "ftp://x", "http://", "http://x?y=1", "http://%zz"} {
		if _, err := proxy.Serve(context.Background(), "127.0.0.1:0", proxy.Options{Upstream: bad}); err == nil {
			t.Errorf("the upstream address %q is accepted", bad)
		}
	}
}

// TestUpstreamFails checks that failures of the server are counted separately from injected faults.
func TestUpstreamFails(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	var journal bytes.Buffer
	s, err := proxy.Serve(context.Background(), "127.0.0.1:0", proxy.Options{Upstream: gone.URL, Journal: &journal})
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := get(s.URL + "/maze/detail?id=1"); err != nil || !strings.Contains(reply, "the server behind the proxy failed") {
		t.Errorf("%q, %v", reply, err)
	}
	if got := s.Counts(); got.UpstreamErrors != 1 || len(got.Faults) != 0 {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(journal.String(), `"kind":"upstream","method":"GET","path":"/maze/detail?id=1"`) {
		t.Errorf("journal: %s", journal.String())
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestCancellation checks that the proxy cancels its request to the server when the client disconnects, and that Close
// ends hanging requests.
func TestCancellation(t *testing.T) {
	began, cancelled := make(chan struct{}), make(chan struct{})
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(cancelled)
	}), "", nil)
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { <-began; cancel() }()
	tr := &http.Transport{DisableKeepAlives: true}
	if _, err := tr.RoundTrip(req); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case <-cancelled:
	case <-time.After(time.Minute):
		t.Error("the request to the server was not cancelled")
	}

	hanging := serve(t, http.NotFoundHandler(), "hang:1", nil)
	replied := make(chan error, 1)
	go func() {
		_, err := get(hanging.URL + "/step")
		replied <- err
	}()
	for deadline := time.Now().Add(time.Minute); hanging.Counts().Faults["hang"] == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no hang was injected within a minute")
		}
		time.Sleep(time.Millisecond)
	}
	if err := hanging.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-replied; err == nil {
		t.Error("a hanging request got a reply")
	}
}

// full fails every write, as a full disk does.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestJournalFails(t *testing.T) {
	plan, err := fault.Parse("500:1")
	if err != nil {
		t.Fatal(err)
	}
	s, err := proxy.Serve(context.Background(), "127.0.0.1:0", proxy.Options{Upstream: "http://127.0.0.1:1", Plan: plan, Journal: full{}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := get(s.URL + "/step"); err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(context.Background()); err == nil || !strings.Contains(err.Error(), "journal of faults: no space") {
		t.Errorf("close: %v", err)
	}
	if got := s.Counts().Faults["500"]; got != 2 {
		t.Errorf("%d faults counted", got)
	}
}
