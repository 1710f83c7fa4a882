package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/openmanus/openmanus/internal/backoff"
)

// heed does what health says about s. The caller holds mu.
func (p *Pool) heed(s *poolServer, v verdict, err error) {
	switch {
	case v == rest:
		p.quarantine(s, err)
	case v == ask && !p.closed:
		p.spawn(func() { p.question(s) })
	}
}

// question asks s, which is in service, whether it is there.
func (p *Pool) question(s *poolServer) {
	err := p.ask(p.life, s, true)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() == nil {
		p.heed(s, s.answered(err), err)
	}
	p.notify()
}

// asks is how often a server is asked whether it is there: one lost reply is
// no sign that it is not.
const asks = 3

// ask probes s until it answers, asks times at most. One that does not answer
// within a probe's time is asked again only by who is patient: it may be busy.
func (p *Pool) ask(ctx context.Context, s *poolServer, patient bool) (err error) {
	for try := range asks {
		if try > 0 && !backoff.Sleep(ctx, p.o.ProbePause) {
			return err
		}
		if err = p.probe(ctx, s); err == nil {
			return nil
		}
		if !patient && errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return err
}

// quarantine takes s out of service and starts the probe that brings it back.
// The first probe comes at once, unless one has just failed; where no good
// exchange lies between, the next wait longer each time. The instances
// s has are not leased again; leases that are out go on with theirs, unless
// the process is gone (lose). The caller holds mu.
func (p *Pool) quarantine(s *poolServer, err error) {
	if err == nil {
		err = fmt.Errorf("an episode reported %s as failing", s.url)
	}
	s.lastErr = err
	if s.down || p.closed {
		return
	}
	s.era++
	s.downSince = time.Now()
	pause := backoff.Delay(p.o.ProbePause, p.o.ProbeMax, s.out())
	p.counts.Quarantines++
	for _, sl := range s.free {
		p.giveBack(s, sl)
	}
	s.free = nil
	p.log.Warn("environment server taken out of service", "server", s.url, "error", err)
	p.spawn(func() { p.probeUntilUp(s, pause) })
}

// probeUntilUp asks s for its greeting until it answers or the pool closes.
func (p *Pool) probeUntilUp(s *poolServer, pause time.Duration) {
	for backoff.Sleep(p.life, pause) {
		err := p.probe(p.life, s)
		p.mu.Lock()
		if !s.down { // another probe was first
			p.mu.Unlock()
			return
		}
		if err == nil {
			s.back()
			p.notify()
			p.mu.Unlock()
			p.log.Info("environment server back in service", "server", s.url)
			return
		}
		s.lastErr = err
		pause = backoff.Delay(p.o.ProbePause, p.o.ProbeMax, s.silent())
		p.mu.Unlock()
	}
}

// probe reports whether s answers at all: any reply below status 500 will do.
func (p *Pool) probe(ctx context.Context, s *poolServer) error {
	words, err := p.greet(ctx, s)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		s.greeting = words
	}
	p.refused(s, err)
	return err
}

// greet asks s for its greeting.
func (p *Pool) greet(ctx context.Context, s *poolServer) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.root, nil)
	if err != nil {
		return "", &Error{Kind: KindConnection, Op: opProbe, URL: s.root, Err: err}
	}
	resp, err := p.httpClient().Do(req)
	if err != nil {
		return "", &Error{Kind: KindConnection, Op: opProbe, URL: s.root, Err: cause(err)}
	}
	defer resp.Body.Close()
	words, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return "", &Error{Kind: KindConnection, Op: opProbe, URL: s.root, Status: resp.StatusCode, Sent: true, Err: err}
	}
	if resp.StatusCode >= 500 {
		return "", &Error{Kind: KindServer, Op: opProbe, URL: s.root, Status: resp.StatusCode, Words: shorten(string(words)), Sent: true}
	}
	return string(words), nil
}

// httpClient is what requests go through where nothing else is said.
func (p *Pool) httpClient() *http.Client {
	if p.o.Client.Client != nil {
		return p.o.Client.Client
	}
	return sharedClient
}
