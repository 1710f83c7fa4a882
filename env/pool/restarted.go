package pool

import (
	"errors"
	"net/http"
	"sync/atomic"
	"syscall"

	"github.com/openmanus/openmanus/env"
)

// A server that was started again is known by one of three signs. Whoever
// starts it says so (ServerDown). Nobody listens at its address: the process is
// gone, and whatever listens there next is another one. Or a create is answered
// with an id that is in use, by a server that never gives one out twice: that is
// all there is to see where it came back between two requests.
//
// The second and third matter for servers that somebody else looks after. Many
// of them prepare a task when they create an instance (textcraft, the tool
// servers, searchqa), so an episode from before would be answered, with status
// 200, out of a task that is not its own.

// lose makes an end of every instance that s has, those of leases that are out
// included: what they ask from now on fails with ErrRestarted. The caller holds
// mu.
func (p *Pool) lose(s *server) {
	s.starts.Add(1)
	s.era++
	for _, sl := range s.free {
		p.giveBack(s, sl)
	}
	s.free = nil
	s.held = map[string]*slot{} // the new process gives the same ids to others
}

// refused notes what came of a request to s: where nobody listens, its
// instances are lost. The caller holds mu.
func (p *Pool) refused(s *server, err error) bool {
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return false
	}
	p.lose(s)
	return true
}

// ServerDown tells the pool that the process behind one of its servers ended.
// No instance there is used again. Whoever starts servers calls it before the
// new process can answer. url is as it was given to NewPool; one that the pool
// does not know is ignored.
func (p *Pool) ServerDown(url string, err error) {
	s := p.server(url)
	if s == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose(s)
	if s.down {
		s.lastErr = err
		return
	}
	p.quarantine(s, err)
	p.notify()
}

// ServerUp tells the pool that the process behind one of its servers is there
// again, so that it is asked at once and not when its next probe is due.
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

// server finds a server by the address NewPool was given.
func (p *Pool) server(url string) *server {
	base, err := env.BaseURL(url, p.spec.PathSuffix)
	if err != nil {
		return nil
	}
	for _, s := range p.servers {
		if s.url == base {
			return s
		}
	}
	return nil
}

// bound gives the transport of an instance of s: it sends nothing to a server
// that was started after the instance was created.
func (p *Pool) bound(s *server) *boundTransport {
	b := &boundTransport{next: p.o.Client.HTTPClient().Transport, server: s}
	if b.next == nil {
		b.next = http.DefaultTransport
	}
	b.start.Store(s.starts.Load())
	return b
}

type boundTransport struct {
	next   http.RoundTripper
	server *server
	start  atomic.Int64 // what server.starts was when the instance was created
}

// lost reports whether the server was started again since.
func (b *boundTransport) lost() bool { return b.server.starts.Load() != b.start.Load() }

// RoundTrip sends req if the server is still the one it was meant for. A reply
// that comes when it is so no longer may be another process's.
func (b *boundTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if b.lost() {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper always closes it
		}
		return nil, env.ErrRestarted
	}
	resp, err := b.next.RoundTrip(req)
	if err == nil && b.lost() {
		_ = resp.Body.Close() // nobody reads it
		return nil, env.ErrRestarted
	}
	return resp, err
}
