package pool

import (
	"context"
	"errors"
	"testing"

	"github.com/openmanus/openmanus/env"
)

// TestPoolServerRestarts checks that a lease from before a restart does not play another episode's game. A restarted
// server numbers its instances from 0 again.
func TestPoolServerRestarts(t *testing.T) {
	c := newFakeServer(t)
	p := newPool(t, Options{}, c.URL)
	ctx := context.Background()
	old, spare := acquire(t, p), acquire(t, p)
	spare.Release()
	p.ServerDown("http://127.0.0.1:1", errors.New("not of this pool")) // the pool ignores this address
	if _, err := old.Client().Step(ctx, ""); err != nil {
		t.Fatal(err)
	}
	requests := func() (probes int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.probes
	}

	c.off.Store(true)
	why := errors.New("it died")
	p.ServerDown(c.URL+"/", why)
	if err := p.allDown(); !errors.Is(err, why) {
		t.Errorf("the failure of the servers is %v, want the error of ServerDown", err)
	}
	// The new process answers a new lease before the old lease sends a request.
	c.mu.Lock()
	c.created, c.open = 0, map[string]bool{}
	c.mu.Unlock()
	c.off.Store(false)
	before := requests()
	p.ServerUp(c.URL)
	fresh := acquire(t, p)
	if requests() == before {
		t.Error("the server was put into service without a probe")
	}
	if created, open := c.counts(); created != 1 || open != 1 {
		t.Errorf("%d created, %d open on the new server, want one", created, open)
	}
	for _, ask := range []func() error{
		func() error { _, err := old.Client().Step(ctx, ""); return err },
		func() error { _, err := old.Client().Reset(ctx, 0); return err },
	} {
		err := ask()
		var e *env.Error
		if !errors.Is(err, env.ErrRestarted) || !errors.As(err, &e) || e.Sent || e.Retryable() || e.Kind != env.KindConnection {
			t.Errorf("a call of the old lease returned %v", err)
		}
		old.Fail(err)
	}
	if _, err := fresh.Client().Step(ctx, ""); err != nil {
		t.Errorf("the new lease: %v", err)
	}
	fresh.Release()
	if l := acquire(t, p); l.slot != fresh.slot {
		t.Error("the new instance is not reused: an error of an old instance counted against the server")
	}
	if _, open := c.counts(); open != 1 {
		t.Errorf("%d instances are open: the instance of the new lease was closed", open)
	}
}

// TestPoolServerRestartsWhileDown checks that instances are discarded if their server restarts while out of service.
func TestPoolServerRestartsWhileDown(t *testing.T) {
	c := newFakeServer(t)
	p := newPool(t, Options{ProbePause: 1 << 40, ProbeMax: 1 << 40}, c.URL)
	l := acquire(t, p)
	c.off.Store(true)
	_, err := l.Client().Step(context.Background(), "")
	l.Fail(err)
	p.ServerDown(c.URL, errors.New("it died"))
	c.off.Store(false)
	p.ServerUp(c.URL) // without this call the next probe is 18 minutes away
	acquire(t, p)
}
