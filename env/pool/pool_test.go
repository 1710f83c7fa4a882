package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// fakeServer is a server of a minimal environment that can be switched off. It counts instances and fails the test if
// an instance has two concurrent requests.
type fakeServer struct {
	*httptest.Server
	t   *testing.T
	off atomic.Bool // whether the server answers every request with 500

	mu      sync.Mutex
	created int
	open    map[string]bool
	inUse   map[string]bool
	probes  int
}

func newFakeServer(t *testing.T) *fakeServer {
	c := &fakeServer{t: t, open: map[string]bool{}, inUse: map[string]bool{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(func() { env.CloseIdle(); c.Server.Close() })
	return c
}

func (c *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.off.Load() {
		http.Error(w, "off", http.StatusInternalServerError)
		return
	}
	var body struct{ ID int }
	_ = json.NewDecoder(r.Body).Decode(&body) // a GET has no body
	id := fmt.Sprint(body.ID)
	c.mu.Lock()
	switch r.URL.Path {
	case "/":
		c.probes++
	case "/create":
		fmt.Fprintf(w, `{"id":%d}`, c.created)
		c.open[fmt.Sprint(c.created)] = true
		c.created++
	case "/close":
		delete(c.open, id)
		fmt.Fprint(w, "true")
	case "/reset", "/step":
		if c.inUse[id] {
			c.t.Errorf("instance %s has two concurrent requests", id)
		}
		if !c.open[id] {
			c.t.Errorf("instance %s has a request after its close", id)
		}
		c.inUse[id] = true
		c.mu.Unlock()
		time.Sleep(time.Duration(rand.N(200)) * time.Microsecond)
		c.mu.Lock()
		c.inUse[id] = false
		fmt.Fprint(w, `{"observation":"","reward":0,"done":false}`)
	default:
		http.NotFound(w, r)
	}
	c.mu.Unlock()
}

// counts returns the numbers of created and of open instances.
func (c *fakeServer) counts() (created, open int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.created, len(c.open)
}

// lookup returns a registered environment.
func lookup(name string) env.Spec {
	s, err := env.Lookup(name)
	if err != nil {
		panic(err)
	}
	return s
}

// fakeSpec is an environment with textcraft's client and without other properties.
var fakeSpec = func() env.Spec {
	s := lookup("textcraft")
	return env.Spec{Name: "fake", New: s.New, Instruction: s.Instruction, MaxTurns: 1}
}()

func newPool(t *testing.T, o Options, urls ...string) *Pool {
	t.Helper()
	o.Client.Backoff, o.Client.Attempts = time.Microsecond, 2
	if o.ProbePause == 0 {
		o.ProbePause, o.ProbeMax = time.Millisecond, 5*time.Millisecond
	}
	p, err := New(fakeSpec, urls, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

func acquire(t *testing.T, p *Pool) *Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	l, err := p.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// quarantine quarantines the server of a lease and ends the lease.
func quarantine(p *Pool, l *Lease) {
	p.mu.Lock()
	p.quarantine(l.server, errors.New("quarantined by the test"))
	p.mu.Unlock()
	l.Fail(nil)
}

// until calls done repeatedly until the result is true. After a minute it fails the test with the message what.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

func TestPoolBalancesAndReuses(t *testing.T) {
	a, b := newFakeServer(t), newFakeServer(t)
	p := newPool(t, Options{}, a.URL, b.URL)
	for round := range 3 {
		at := map[string]int{}
		var leases []*Lease
		for range 6 {
			l := acquire(t, p)
			at[l.Server()]++
			leases = append(leases, l)
		}
		if at[a.URL] != 3 || at[b.URL] != 3 {
			t.Errorf("round %d: %v", round, at)
		}
		for _, l := range leases {
			l.Release()
			l.Fail(&env.Error{Kind: env.KindTimeout}) // no effect: the lease has ended
		}
	}
	for _, c := range []*fakeServer{a, b} {
		if created, open := c.counts(); created != 3 || open != 3 {
			t.Errorf("got %d created and %d open instances, want 3 and 3", created, open)
		}
	}
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
	for _, c := range []*fakeServer{a, b} {
		if _, open := c.counts(); open != 0 {
			t.Errorf("%d instances are open after Close", open)
		}
	}
}

func TestPoolPassesOverADeadServer(t *testing.T) {
	dead, live := newFakeServer(t), newFakeServer(t)
	dead.off.Store(true)
	p := newPool(t, Options{}, dead.URL, live.URL)
	for range 3 {
		if l := acquire(t, p); l.Server() != live.URL {
			t.Errorf("lease at %s", l.Server())
		}
	}
	dead.off.Store(false)
	until(t, "the server comes back", func() bool {
		l := acquire(t, p)
		defer l.Release()
		return l.Server() == dead.URL
	})
}

func TestPoolAllDown(t *testing.T) {
	a, b := newFakeServer(t), newFakeServer(t)
	a.off.Store(true)
	b.off.Store(true)
	p := newPool(t, Options{WaitHealthy: 50 * time.Millisecond}, a.URL, b.URL)
	_, err := p.Acquire(context.Background())
	var down *DownError
	if !errors.As(err, &down) || down.Waited == 0 || !strings.Contains(err.Error(), a.URL) || !strings.Contains(err.Error(), b.URL) || !errors.Is(err, env.KindServer) {
		t.Errorf("got %v", err)
	}
	a.off.Store(false)
	until(t, "a lease", func() bool {
		l, err := p.Acquire(context.Background())
		if err == nil {
			l.Release()
		}
		return err == nil
	})
}

// TestPoolCheck checks that Check sends one request to each server, that Acquire skips a server until the server
// answers, and that Check returns an error at once if no server answers.
func TestPoolCheck(t *testing.T) {
	a, b := newFakeServer(t), newFakeServer(t)
	p := newPool(t, Options{}, a.URL, b.URL)
	if err := p.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.off.Store(true)
	if err := p.Check(t.Context()); err != nil {
		t.Errorf("Check with one of two servers down returned %v", err)
	}
	if l := acquire(t, p); l.Server() != a.URL {
		t.Errorf("Acquire leased on %s, which is down", l.Server())
	} else {
		l.Release()
	}
	b.off.Store(false)
	until(t, "both servers are in service", func() bool { return p.allDown() == nil && !p.servers[1].isDown(p) })

	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	p = newPool(t, Options{}, gone.URL)
	var down *DownError
	if err := p.Check(t.Context()); !errors.As(err, &down) || down.Waited != 0 || !strings.Contains(err.Error(), gone.URL) || !errors.Is(err, env.KindConnection) {
		t.Errorf("got %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := newPool(t, Options{}, gone.URL).Check(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled check gave %v", err)
	}
}

func (s *server) isDown(p *Pool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.down
}

func TestPoolAcquireEndsWithContext(t *testing.T) {
	a := newFakeServer(t)
	p := newPool(t, Options{MaxPerServer: 1}, a.URL)
	l := acquire(t, p)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
	if _, err := p.Acquire(ctx); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	got := make(chan *Lease)
	go func() {
		l, err := p.Acquire(context.Background())
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	l.Release()
	(<-got).Release()
	if created, _ := a.counts(); created != 1 {
		t.Errorf("%d created", created)
	}
}

func TestPoolQuarantine(t *testing.T) {
	a := newFakeServer(t)
	p := newPool(t, Options{}, a.URL)
	kept, free, bad := acquire(t, p), acquire(t, p), acquire(t, p)
	free.Release()
	quarantine(p, bad)
	until(t, "the failed and the free instance are closed", func() bool { _, open := a.counts(); return open == 1 })
	l := acquire(t, p)
	if created, _ := a.counts(); created != 4 {
		t.Errorf("got %d created instances, want 4: instances from before the quarantine must not be used again", created)
	}
	kept.Release() // the instance is from before the quarantine, so it is closed
	until(t, "the old instance is closed", func() bool { _, open := a.counts(); return open == 1 })
	l.Release()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.probes == 0 {
		t.Error("the server was not probed")
	}
}

func TestPoolFail(t *testing.T) {
	for _, tt := range []struct {
		err   error
		blame bool
	}{
		{&env.Error{Kind: env.KindEnvironment}, false},
		{&env.Error{Kind: env.KindValidation}, false},
		{fmt.Errorf("turn 3: %w", &env.Error{Kind: env.KindTimeout}), true},
		{&env.Error{Kind: env.KindConnection}, true},
		{errors.New("the model failed"), false},
	} {
		a := newFakeServer(t)
		p := newPool(t, Options{QuarantineAfter: 1}, a.URL)
		acquire(t, p).Fail(tt.err)
		until(t, "the instance is closed", func() bool { _, open := a.counts(); return open == 0 })
		acquire(t, p).Release()
		a.mu.Lock()
		if (a.probes > 0) != tt.blame {
			t.Errorf("%v: probed %d times", tt.err, a.probes)
		}
		a.mu.Unlock()
	}
}

func TestPoolClosed(t *testing.T) {
	a := newFakeServer(t)
	p := newPool(t, Options{}, a.URL)
	l := acquire(t, p)
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := p.Acquire(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	l.Release()
	until(t, "the late instance is closed", func() bool { _, open := a.counts(); return open == 0 })
}

func TestPoolWrongAddress(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	defer env.CloseIdle()
	p := newPool(t, Options{}, srv.URL)
	_, err := p.Acquire(context.Background())
	if !errors.Is(err, env.KindRouting) || !strings.Contains(err.Error(), "is this address a server of this environment?") {
		t.Errorf("got %v", err)
	}
	for _, urls := range [][]string{nil, {""}, {"http://h:1", "http://h:1/"}} {
		if _, err := New(fakeSpec, urls, Options{}); err == nil {
			t.Errorf("%q was accepted", urls)
		}
	}
	if _, err := New(fakeSpec, []string{"http://h"}, Options{Client: env.Options{Parser: "g9"}}); err == nil {
		t.Error("parser g9 was accepted")
	}
}

func TestLeaseRecord(t *testing.T) {
	a := newFakeServer(t)
	p := newPool(t, Options{}, a.URL)
	record := func(l *Lease) []string {
		var got []string
		for _, x := range l.Created() {
			got = append(got, "before: "+x.Path)
		}
		l.Record(func(x data.Exchange) { got = append(got, x.Path) })
		if _, err := l.Client().Reset(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		l.Release()
		return got
	}
	if got := fmt.Sprint(record(acquire(t, p))); got != "[/create /reset]" {
		t.Error(got)
	}
	if got := fmt.Sprint(record(acquire(t, p))); got != "[before: /create /reset]" {
		t.Error(got)
	}
}

// TestPoolUnderLoad runs many goroutines on servers that stop and return, with failing instances. It checks that every
// lease is exclusive and that no lease or free instance remains at the end.
func TestPoolUnderLoad(t *testing.T) {
	servers := []*fakeServer{newFakeServer(t), newFakeServer(t), newFakeServer(t)}
	p := newPool(t, Options{MaxPerServer: 6, WaitHealthy: time.Minute}, servers[0].URL, servers[1].URL, servers[2].URL)
	var wg sync.WaitGroup
	for g := range 24 {
		wg.Go(func() {
			for i := range 12 {
				if i%4 == 0 {
					servers[g%2].off.Store(i%8 == 0 && g < 8)
				}
				l, err := p.Acquire(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := l.Client().Reset(context.Background(), 0); err != nil {
					l.Fail(err)
					continue
				}
				_, err = l.Client().Step(context.Background(), "")
				if err == nil {
					l.Release()
				} else {
					l.Fail(err)
				}
			}
		})
	}
	wg.Wait()
	for _, c := range servers {
		c.off.Store(false)
	}
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		if s.live != 0 || len(s.free) != 0 {
			t.Errorf("%s: %d live, %d free", s.url, s.live, len(s.free))
		}
	}
}

// TestPoolPlace checks that AcquireAt leases on the server of Place.Only, and avoids the servers of Place.Avoid.
func TestPoolPlace(t *testing.T) {
	a, b := newFakeServer(t), newFakeServer(t)
	p := newPool(t, Options{MaxPerServer: 2, WaitHealthy: 20 * time.Millisecond, ProbePause: time.Hour, ProbeMax: time.Hour}, a.URL, b.URL)
	var leases []*Lease
	at := func(at Place, want string) {
		t.Helper()
		l, err := p.AcquireAt(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		if l.Server() != want {
			t.Errorf("AcquireAt(%+v) leased on %s, want %s", at, l.Server(), want)
		}
		leases = append(leases, l)
	}
	at(Place{Only: b.URL}, b.URL)
	at(Place{Only: b.URL}, b.URL)
	if _, err := p.AcquireAt(t.Context(), Place{Only: b.URL, NoWait: true}); !errors.Is(err, ErrFull) {
		t.Errorf("a third lease on %s: %v", b.URL, err)
	}
	at(Place{Avoid: []string{a.URL}}, a.URL) // the preferred server is full
	leases[0].Release()
	at(Place{Avoid: []string{a.URL}, NoWait: true}, b.URL)
	if _, err := p.AcquireAt(t.Context(), Place{Only: "http://h:1"}); err == nil || !strings.Contains(err.Error(), "http://h:1 is not one of the servers") {
		t.Errorf("an unknown server: %v", err)
	}
	b.off.Store(true)
	p.ServerDown(b.URL, errors.New("it died"))
	var down *ServerDownError
	if _, err := p.AcquireAt(t.Context(), Place{Only: b.URL}); !errors.As(err, &down) || down.Server != b.URL || !strings.Contains(err.Error(), "status 500") {
		t.Errorf("with one server down, AcquireAt returned %v", err)
	}
	if got := p.InService(); len(got) != 1 || got[0] != a.URL {
		t.Errorf("in service: %v", got)
	}
	a.off.Store(true)
	p.ServerDown(a.URL, errors.New("it died"))
	var all *DownError
	if _, err := p.AcquireAt(t.Context(), Place{Only: b.URL}); !errors.As(err, &all) {
		t.Errorf("all are down: %v", err)
	}
	for _, l := range leases[1:] {
		l.Release()
	}
}

// TestPoolPlaceOnAServerThatStaysDown checks that AcquireAt does not wait again for a server that has been down for
// WaitHealthy while others are in service, and that it does wait if all servers are down.
func TestPoolPlaceOnAServerThatStaysDown(t *testing.T) {
	a, b := newFakeServer(t), newFakeServer(t)
	p := newPool(t, Options{WaitHealthy: time.Hour, ProbePause: 2 * time.Hour, ProbeMax: 2 * time.Hour}, a.URL, b.URL)
	b.off.Store(true)
	p.ServerDown(b.URL, errors.New("it died"))
	p.mu.Lock()
	p.servers[1].downSince = time.Now().Add(-time.Hour)
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var down *ServerDownError
	if _, err := p.AcquireAt(ctx, Place{Only: b.URL}); !errors.As(err, &down) {
		t.Errorf("with one server down, AcquireAt returned %v", err)
	}
	a.off.Store(true)
	p.ServerDown(a.URL, errors.New("it died"))
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.AcquireAt(ctx, Place{Only: b.URL}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("all are down: %v", err)
	}
}
