package pool

import (
	"errors"
	"net/http"
	"sync/atomic"
	"syscall"

	"github.com/openmanus/openmanus/env"
)

// A restart of a server has one of three signs: the code that starts servers reports
// it (ServerDown); a connection is refused, so the process has ended and a later one at
// the address is new; or a server that assigns a new id to each instance returns an id
// that is in use, which is the only sign of a restart between two requests.
//
// The last two signs matter for servers that the user runs. Many servers (textcraft,
// the tool servers, searchqa) prepare a task when they create an instance, so
// they would answer an episode from before the restart with status 200 and
// another task's state.

// invalidateAll invalidates every instance of s, including leased ones: their further
// requests fail with env.ErrRestarted. The caller must hold mu.
func (p *Pool) invalidateAll(s *server) {
	s.starts.Add(1)
	s.era++
	p.discardFree(s)
	s.held = map[string]*slot{} // the new process assigns the same ids
}

// noteRefusal invalidates the instances of s and returns true if err is a refused
// connection. The caller must hold mu.
func (p *Pool) noteRefusal(s *server, err error) bool {
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return false
	}
	p.invalidateAll(s)
	return true
}

// ServerDown reports to the pool that the process of a server has ended. Its
// instances are not used again. The caller must call ServerDown before a new process
// can answer. url is an address that New received; other addresses are ignored.
func (p *Pool) ServerDown(url string, err error) {
	s := p.server(url)
	if s == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.invalidateAll(s)
	p.quarantine(s, err)
	p.notify()
}

// ServerUp reports to the pool that the process of a server runs again. The pool then
// probes the server at once instead of after the current pause.
func (p *Pool) ServerUp(url string) {
	s := p.server(url)
	if s == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.down && !p.closed {
		p.spawn(func() { p.probeUntilUp(s, 0) })
	}
}

// bound returns the transport for an instance of s that is about to be created.
func (p *Pool) bound(s *server) *boundTransport {
	b := &boundTransport{next: p.o.Client.HTTPClient().Transport, server: s}
	if b.next == nil {
		b.next = http.DefaultTransport
	}
	b.start.Store(s.starts.Load())
	return b
}

// boundTransport only sends requests to the server process that created the
// instance.
type boundTransport struct {
	next   http.RoundTripper
	server *server
	start  atomic.Int64 // server.starts when the instance was created
}

// lost reports whether the server was restarted after the creation of the instance.
func (b *boundTransport) lost() bool { return b.server.starts.Load() != b.start.Load() }

// RoundTrip sends req unless the server was restarted. A reply that arrives after
// a restart is discarded, since another process may have sent it.
func (b *boundTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if b.lost() {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper must close the body
		}
		return nil, env.ErrRestarted
	}
	resp, err := b.next.RoundTrip(req)
	if err == nil && b.lost() {
		_ = resp.Body.Close() // the reply is discarded
		return nil, env.ErrRestarted
	}
	return resp, err
}
