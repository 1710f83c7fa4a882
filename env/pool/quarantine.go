package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/backoff"
)

// heed does what health says about s. The caller holds mu.
func (p *Pool) heed(s *server, v verdict, err error) {
	switch {
	case v == rest:
		p.quarantine(s, err)
	case v == ask && !p.closed:
		p.spawn(func() { p.question(s) })
	}
}

// question asks s, which is in service, whether it is there.
func (p *Pool) question(s *server) {
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
func (p *Pool) ask(ctx context.Context, s *server, patient bool) (err error) {
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
func (p *Pool) quarantine(s *server, err error) {
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
func (p *Pool) probeUntilUp(s *server, pause time.Duration) {
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
func (p *Pool) probe(ctx context.Context, s *server) error {
	words, err := env.Greet(ctx, p.o.Client.HTTPClient(), s.root)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		s.greeting = words
	}
	p.refused(s, err)
	return err
}
