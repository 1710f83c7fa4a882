package env

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// quarantine takes s out of service and starts the probe that brings it back.
// The first probe comes at once, so that a few lost replies cost a round trip;
// where no good exchange lies between, the next wait longer each time. The instances
// s has are not used again: after a restart its ids start from 0 anew, and an
// old id may be somebody else's. The caller holds mu.
func (p *Pool) quarantine(s *poolServer, err error) {
	if err == nil {
		err = fmt.Errorf("an episode reported %s as failing", s.url)
	}
	s.lastErr = err
	if s.down || p.closed {
		return
	}
	s.down = true
	s.era++
	s.row = 0
	s.failures++
	p.counts.Quarantines++
	for _, sl := range s.free {
		p.giveBack(s, sl)
	}
	s.free = nil
	p.log.Warn("environment server taken out of service", "server", s.url, "error", err)
	pause := time.Duration(0)
	if s.failures > 1 {
		pause = p.probePause(s.failures - 1)
	}
	p.spawn(func() { p.probeUntilUp(s, pause) })
}

func (p *Pool) probePause(n int) time.Duration {
	d := p.o.ProbePause
	for i := 1; i < n && d < p.o.ProbeMax; i++ {
		d *= 2
	}
	return min(d, p.o.ProbeMax)
}

// probeUntilUp asks s for its greeting until it answers or the pool closes.
func (p *Pool) probeUntilUp(s *poolServer, pause time.Duration) {
	for sleep(p.life, pause) {
		err := p.probe(s)
		p.mu.Lock()
		if !s.down { // another probe was first
			p.mu.Unlock()
			return
		}
		if err == nil {
			s.down, s.row = false, 0
			p.notify()
			p.mu.Unlock()
			p.log.Info("environment server back in service", "server", s.url)
			return
		}
		s.failures++
		s.lastErr = err
		pause = p.probePause(s.failures - 1)
		p.mu.Unlock()
	}
}

// probe reports whether s answers at all: any reply below status 500 will do.
func (p *Pool) probe(s *poolServer) error {
	ctx, cancel := context.WithTimeout(p.life, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.root, nil)
	if err != nil {
		return &Error{Kind: KindConnection, Op: opProbe, URL: s.root, Err: err}
	}
	resp, err := p.httpClient().Do(req)
	if err != nil {
		return &Error{Kind: KindConnection, Op: opProbe, URL: s.root, Err: cause(err)}
	}
	defer resp.Body.Close()
	words, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return &Error{Kind: KindConnection, Op: opProbe, URL: s.root, Status: resp.StatusCode, Sent: true, Err: err}
	}
	if resp.StatusCode >= 500 {
		return &Error{Kind: KindServer, Op: opProbe, URL: s.root, Status: resp.StatusCode, Words: shorten(string(words)), Sent: true}
	}
	return nil
}

// httpClient is what requests go through where nothing else is said.
func (p *Pool) httpClient() *http.Client {
	if p.o.Client.Client != nil {
		return p.o.Client.Client
	}
	return sharedClient
}
