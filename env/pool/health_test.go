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
)

// What is done about a server after each thing that happens with it. There is
// no clock in it.
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
		return event{err.Error(), func(h *health) verdict { return h.failed(err) }}
	}
	good := event{"good", func(h *health) verdict { h.good(); return stay }}
	uncreated := event{"uncreated", func(h *health) verdict { return h.uncreated() }}
	created := event{"created", func(h *health) verdict { h.created(); return stay }}
	greets := event{"greets", func(h *health) verdict { return h.answered(nil) }}
	silent := event{"silent", func(h *health) verdict { return h.answered(cut) }}
	back := event{"back", func(h *health) verdict { h.back(); return stay }}
	type told struct {
		event
		want verdict
	}
	for name, events := range map[string][]told{
		"a few failures are nothing":        {{fails(status), stay}, {fails(reset), stay}, {good, stay}, {fails(reset), stay}, {fails(status), stay}, {good, stay}},
		"three in a row make it suspect":    {{fails(status), stay}, {fails(reset), stay}, {fails(status), ask}, {fails(status), stay}, {greets, stay}},
		"one in vain does":                  {{fails(hang), ask}, {greets, stay}, {fails(hang), ask}},
		"nobody listens":                    {{fails(refused), rest}},
		"silent, and good before it":        {{good, stay}, {fails(hang), ask}, {silent, rest}},
		"silent, but it works":              {{fails(hang), ask}, {good, stay}, {silent, stay}, {fails(hang), ask}, {silent, rest}},
		"no way there":                      {{fails(cut), ask}, {silent, rest}},
		"it greets and does nothing":        {{fails(status), stay}, {fails(status), stay}, {fails(status), ask}, {greets, stay}, {fails(status), ask}, {fails(status), rest}},
		"a good one ends the row":           {{fails(status), stay}, {fails(status), stay}, {fails(status), ask}, {greets, stay}, {fails(status), ask}, {good, stay}, {fails(status), stay}},
		"no instance comes about":           {{uncreated, ask}, {greets, stay}, {good, stay}, {uncreated, ask}, {greets, stay}, {good, stay}, {uncreated, ask}, {greets, stay}, {uncreated, ask}, {greets, stay}, {uncreated, rest}},
		"one does in between":               {{uncreated, ask}, {greets, stay}, {uncreated, ask}, {greets, stay}, {created, stay}, {uncreated, ask}, {greets, stay}, {uncreated, ask}, {greets, stay}, {uncreated, ask}, {greets, stay}, {uncreated, ask}},
		"it is asked once at a time":        {{fails(hang), ask}, {fails(cut), stay}, {uncreated, stay}, {greets, stay}, {fails(cut), ask}},
		"what comes when it is out is late": {{fails(cut), ask}, {silent, rest}, {fails(refused), stay}, {uncreated, stay}, {good, stay}, {silent, stay}, {back, stay}, {fails(status), stay}},
	} {
		h := &health{limit: 5}
		for i, e := range events {
			got := e.do(h)
			if got != e.want {
				t.Errorf("%s: %d is said of event %d (%s), want %d", name, got, i+1, e.name, e.want)
			}
			if got == rest {
				h.out()
			}
		}
	}
}

// The first probe of a server that was taken out comes at once, unless one has
// just failed; the pauses grow until it does something well.
func TestHealthPauses(t *testing.T) {
	h := &health{limit: 1}
	took := []int{h.out(), h.silent(), h.silent()}
	h.back()
	took = append(took, h.out()) // it greeted, and failed again
	h.back()
	h.good()
	h.failed(&env.Error{Kind: env.KindTimeout})
	took = append(took, h.out())
	h.back()
	h.good()
	h.suspect(true)
	h.answered(errors.New("silent"))
	took = append(took, h.out())
	for i, want := range []int{0, 1, 2, 3, 0, 1} {
		if took[i] != want {
			t.Errorf("the pauses are number %v, want 0, 1, 2, 3, 0, 1", took)
			break
		}
	}
}

// A lossy server keeps its instances, whatever it is asked: nothing that worked
// is thrown away for a row of failures.
func TestLossyServerKeepsItsInstances(t *testing.T) {
	fails := fakeReply{status: http.StatusInternalServerError, body: "no"}
	well := fakeReply{body: `{"observation":"","reward":0,"done":false}`}
	s := newFake(t, map[string][]fakeReply{
		"POST /create": {{body: `{"id":0}`}, {body: `{"id":1}`}, {body: `{"id":2}`}},
		"POST /step":   {fails, fails, fails, fails, well}, "GET /": okReply(`"up"`), "POST /close": okReply("true"),
	})
	s.overlap = true // it is asked at any time
	p := newPool(t, Options{}, s.URL)
	kept, free := acquire(t, p), acquire(t, p)
	free.Release(true)
	for range 4 {
		if _, err := kept.Client().Step(context.Background(), ""); !errors.Is(err, env.KindServer) {
			t.Fatal(err)
		}
	}
	until(t, "it is asked", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, asked := range s.asked {
			if asked == "GET /" {
				return true
			}
		}
		return false
	})
	if _, err := kept.Client().Step(context.Background(), ""); err != nil {
		t.Fatal(err)
	}
	kept.Release(true)
	for range 2 {
		acquire(t, p) // both are there still
	}
	if got := p.Counts(); got.Quarantines != 0 || got.Instances != 2 {
		t.Errorf("%+v", got)
	}
}

// A server that fails and does not greet either is out, and comes back when it
// greets again.
func TestSilentServerIsTakenOut(t *testing.T) {
	a, b := newCrowd(t), newCrowd(t)
	p := newPool(t, Options{}, a.URL, b.URL)
	l, other := acquire(t, p), acquire(t, p)
	if l.Server() != a.URL {
		l, other = other, l
	}
	a.off.Store(true)
	for range asksAfter {
		if _, err := l.Client().Step(context.Background(), ""); !errors.Is(err, env.KindServer) {
			t.Fatal(err)
		}
	}
	until(t, "it is out", func() bool { return p.servers[0].isDown(p) })
	for range 3 {
		if at := acquire(t, p).Server(); at != b.URL {
			t.Errorf("a lease at %s, which is down", at)
		}
	}
	a.off.Store(false)
	until(t, "it is back", func() bool { return !p.servers[0].isDown(p) })
	if at := acquire(t, p).Server(); at != a.URL {
		t.Errorf("a lease at %s, which has more", at)
	}
}

// Resets of one task that are answered with a failure say nothing of the
// server, however many there are; those of many tasks do, where none goes well.
func TestHealthOfResets(t *testing.T) {
	h := health{limit: 5}
	for range 100 {
		if v := h.unstarted(3); v != stay {
			t.Fatalf("one task: %v", v)
		}
	}
	for task := range 4 {
		h.unstarted(task)
	}
	h.started()
	var got []verdict
	for task := range 5 {
		got = append(got, h.unstarted(task))
	}
	if want := []verdict{stay, stay, stay, stay, rest}; !slices.Equal(got[3:], want[3:]) || h.row != 0 {
		t.Errorf("five tasks: %v, a row of %d", got, h.row)
	}
	h.out()
	h.back()
	if v := h.unstarted(9); v != stay || len(h.tasks) != 1 {
		t.Errorf("back in service: %v, %d tasks", v, len(h.tasks))
	}
}
