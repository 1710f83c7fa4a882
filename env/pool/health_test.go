package pool

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/envtest"
)

// TestHealth checks the verdict after each of a list of events.
func TestHealth(t *testing.T) {
	var (
		status  = &env.Error{Kind: env.KindServer, Status: 500, Sent: true}
		hang    = &env.Error{Kind: env.KindTimeout, Sent: true}
		cut     = &env.Error{Kind: env.KindConnection, Err: errors.New("no route")}
		refused = &env.Error{Kind: env.KindConnection, Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
		reset   = &env.Error{Kind: env.KindConnection, Sent: true}
	)
	type event struct {
		name string
		do   func(*health) verdict
	}
	fails := func(err error) event {
		return event{err.Error(), func(h *health) verdict { return h.requestFailed(err) }}
	}
	good := event{"good", func(h *health) verdict { h.requestOK(); return keep }}
	uncreated := event{"uncreated", func(h *health) verdict { return h.createFailed() }}
	created := event{"created", func(h *health) verdict { h.createOK(); return keep }}
	greets := event{"greets", func(h *health) verdict { return h.checked(nil) }}
	silent := event{"silent", func(h *health) verdict { return h.checked(cut) }}
	back := event{"back", func(h *health) verdict { h.restored(); return keep }}
	type step struct {
		event
		want verdict
	}
	for name, events := range map[string][]step{
		"few failures":                    {{fails(status), keep}, {fails(reset), keep}, {good, keep}, {fails(reset), keep}, {fails(status), keep}, {good, keep}},
		"three failures in a row":         {{fails(status), keep}, {fails(reset), keep}, {fails(status), check}, {fails(status), keep}, {greets, keep}},
		"one timeout":                     {{fails(hang), check}, {greets, keep}, {fails(hang), check}},
		"refused connection":              {{fails(refused), takeOut}},
		"no greeting":                     {{good, keep}, {fails(hang), check}, {silent, takeOut}},
		"no greeting, but a good request": {{fails(hang), check}, {good, keep}, {silent, keep}, {fails(hang), check}, {silent, takeOut}},
		"no connection":                   {{fails(cut), check}, {silent, takeOut}},
		"only the greeting works":         {{fails(status), keep}, {fails(status), keep}, {fails(status), check}, {greets, keep}, {fails(status), check}, {fails(status), takeOut}},
		"a success resets the count":      {{fails(status), keep}, {fails(status), keep}, {fails(status), check}, {greets, keep}, {fails(status), check}, {good, keep}, {fails(status), keep}},
		"creates fail":                    {{uncreated, check}, {greets, keep}, {good, keep}, {uncreated, check}, {greets, keep}, {good, keep}, {uncreated, check}, {greets, keep}, {uncreated, check}, {greets, keep}, {uncreated, takeOut}},
		"a create succeeds in between":    {{uncreated, check}, {greets, keep}, {uncreated, check}, {greets, keep}, {created, keep}, {uncreated, check}, {greets, keep}, {uncreated, check}, {greets, keep}, {uncreated, check}, {greets, keep}, {uncreated, check}},
		"no second check during a check":  {{fails(hang), check}, {fails(cut), keep}, {uncreated, keep}, {greets, keep}, {fails(cut), check}},
		"events while out of service":     {{fails(cut), check}, {silent, takeOut}, {fails(refused), keep}, {uncreated, keep}, {good, keep}, {silent, keep}, {back, keep}, {fails(status), keep}},
	} {
		h := &health{limit: 5}
		for i, e := range events {
			got := e.do(h)
			if got != e.want {
				t.Errorf("%s: verdict %d for event %d (%s), want %d", name, got, i+1, e.name, e.want)
			}
			if got == takeOut {
				h.takenOut()
			}
		}
	}
}

// TestHealthRestored checks that a check which began before a server was taken out neither makes the restored server suspect nor takes it
// out.
func TestHealthRestored(t *testing.T) {
	h := &health{limit: 5}
	if got := h.createFailed(); got != check || !h.suspect() {
		t.Fatalf("verdict %d after a failed creation, suspect %t; want a check of a suspect server", got, h.suspect())
	}
	h.takenOut()
	h.restored()
	if h.suspect() {
		t.Error("the restored server is suspect")
	}
	if got := h.checked(errors.New("silent")); got != keep {
		t.Errorf("verdict %d after the end of the check, want %d", got, keep)
	}
}

// TestHealthPauses checks that a quarantined server is probed at once, unless a probe has just failed, and that the
// pauses between probes grow until an exchange succeeds.
func TestHealthPauses(t *testing.T) {
	h := &health{limit: 1}
	took := []int{h.takenOut(), h.probeFailed(), h.probeFailed()}
	h.restored()
	took = append(took, h.takenOut()) // the probe succeeded, then requests failed again
	h.restored()
	h.requestOK()
	h.requestFailed(&env.Error{Kind: env.KindTimeout})
	took = append(took, h.takenOut())
	h.restored()
	h.requestOK()
	h.suspectIf(true)
	h.checked(errors.New("silent"))
	took = append(took, h.takenOut())
	for i, want := range []int{0, 1, 2, 3, 0, 1} {
		if took[i] != want {
			t.Errorf("the numbers of the pauses are %v, want 0, 1, 2, 3, 0, 1", took)
			break
		}
	}
}

// TestLossyServerKeepsItsInstances checks that a server stays in service if it loses some requests: the pool discards
// none of its instances after failures in a row.
func TestLossyServerKeepsItsInstances(t *testing.T) {
	fails := envtest.Reply{Status: http.StatusInternalServerError, Body: "no"}
	well := envtest.Reply{Body: `{"observation":"","reward":0,"done":false}`}
	s := envtest.New(t, map[string][]envtest.Reply{
		"POST /create": {{Body: `{"id":0}`}, {Body: `{"id":1}`}, {Body: `{"id":2}`}},
		"POST /step":   {fails, fails, fails, fails, well}, "GET /": envtest.OK(`"up"`), "POST /close": envtest.OK("true"),
	})
	s.Overlap = true // a probe may overlap with another request
	p := newPool(t, Options{}, s.URL)
	kept, free := acquire(t, p), acquire(t, p)
	free.Release()
	for range 4 {
		if _, err := kept.Client().Step(context.Background(), ""); !errors.Is(err, env.KindServer) {
			t.Fatal(err)
		}
	}
	until(t, "the greeting is requested", func() bool { return slices.Contains(s.Requests(), "GET /") })
	if _, err := kept.Client().Step(context.Background(), ""); err != nil {
		t.Fatal(err)
	}
	kept.Release()
	for range 2 {
		acquire(t, p) // the two leases use the two existing instances
	}
	if got := p.Counts(); got.Quarantines != 0 || got.Instances != 2 {
		t.Errorf("%+v", got)
	}
}

// TestSilentServerIsTakenOut checks that a server is quarantined if it fails and does not answer its greeting, and that
// it returns to service when it answers again.
func TestSilentServerIsTakenOut(t *testing.T) {
	a, b := newFakeServer(t), newFakeServer(t)
	p := newPool(t, Options{}, a.URL, b.URL)
	l, other := acquire(t, p), acquire(t, p)
	if l.Server() != a.URL {
		l, other = other, l
	}
	a.off.Store(true)
	for range suspectAfter {
		if _, err := l.Client().Step(context.Background(), ""); !errors.Is(err, env.KindServer) {
			t.Fatal(err)
		}
	}
	until(t, "the server is quarantined", func() bool { return p.servers[0].isDown(p) })
	for range 3 {
		if at := acquire(t, p).Server(); at != b.URL {
			t.Errorf("Acquire leased on %s, which is down", at)
		}
	}
	a.off.Store(false)
	until(t, "the server is in service", func() bool { return !p.servers[0].isDown(p) })
	if at := acquire(t, p).Server(); at != a.URL {
		t.Errorf("Acquire leased on %s, which has more leases", at)
	}
}

// TestHealthOfResets checks that failed resets of one task, however many, do not count against the server, and that
// failed resets of many tasks do, unless a reset succeeds in between.
func TestHealthOfResets(t *testing.T) {
	h := health{limit: 5}
	for range 100 {
		if v := h.resetFailed(3); v != keep {
			t.Fatalf("one task: %v", v)
		}
	}
	for task := range 4 {
		h.resetFailed(task)
	}
	h.resetOK()
	var got []verdict
	for task := range 5 {
		got = append(got, h.resetFailed(task))
	}
	if want := []verdict{keep, keep, keep, keep, takeOut}; !slices.Equal(got[3:], want[3:]) || h.failures != 0 {
		t.Errorf("five tasks: %v, %d failures", got, h.failures)
	}
	h.takenOut()
	h.restored()
	if v := h.resetFailed(9); v != keep || len(h.tasks) != 1 {
		t.Errorf("after the return to service, a failed reset gives verdict %v and %d failed tasks, want keep and 1", v, len(h.tasks))
	}
}
