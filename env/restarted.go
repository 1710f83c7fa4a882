package env

import (
	"errors"
	"net/http"
)

// ErrRestarted is the cause of the failure of every request to an instance
// whose server was started again since. The request was not sent: the new
// server counts its ids from 0, and the old id may be somebody else's by now.
var ErrRestarted = errors.New("the server was started again, and the instance with the old one is lost")

// ServerDown tells the pool that the process behind one of its servers ended.
// No instance there is used again, those of leases that are out included: what
// they ask from now on fails with ErrRestarted. Whoever starts servers calls
// it before the new process can answer. url is as it was given to NewPool; one
// that the pool does not know is ignored.
func (p *Pool) ServerDown(url string, err error) {
	s := p.server(url)
	if s == nil {
		return
	}
	s.starts.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.held = map[string]*slot{} // the new process gives the same ids to others
	if s.down {
		s.era++ // an instance may have been created since it was found down
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
func (p *Pool) server(url string) *poolServer {
	base, err := BaseURL(url, p.spec.PathSuffix)
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

// bound gives the client of an instance of s: it sends nothing to a server
// that was started after the instance was created.
func (p *Pool) bound(s *poolServer) *http.Client {
	c := *p.httpClient()
	next := c.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	c.Transport = &boundTransport{next: next, server: s, start: s.starts.Load()}
	return &c
}

type boundTransport struct {
	next   http.RoundTripper
	server *poolServer
	start  int64
}

// RoundTrip sends req if the server is still the one it was meant for.
func (b *boundTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if b.server.starts.Load() != b.start {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper always closes it
		}
		return nil, ErrRestarted
	}
	return b.next.RoundTrip(req)
}
