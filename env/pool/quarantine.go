package pool

import (
	"context"
	"errors"
	"time"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/backoff"
)

// apply carries out the verdict on s. The caller must hold mu.
func (p *Pool) apply(s *server, v verdict, err error) {
	switch {
	case v == takeOut:
		p.quarantine(s, err)
	case v == check && !p.closed:
		p.spawn(func() { p.check(s) })
	}
}

// check probes s while it is in service.
func (p *Pool) check(s *server) {
	err := p.probeRepeatedly(p.life, s, true)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() == nil {
		p.apply(s, s.checked(err), err)
	}
	p.notify()
}

// maxProbes is the number of probes in one check: a single lost reply does not show a
// fault.
const maxProbes = 3

// probeRepeatedly probes s until it answers, at most maxProbes times. A probe that
// exceeds its time limit is only repeated if patient is true, because the server may
// be busy.
func (p *Pool) probeRepeatedly(ctx context.Context, s *server, patient bool) (err error) {
	for try := range maxProbes {
		if try > 0 && !backoff.Sleep(ctx, p.o.ProbePause) {
			return err
		}
		if err = p.probe(ctx, s); err == nil {
			return nil
		}
		if !patient && errors.Is(err, env.KindTimeout) {
			return err
		}
	}
	return err
}

// probe requests the greeting of s.
func (p *Pool) probe(ctx context.Context, s *server) error {
	greeting, err := env.Greet(ctx, p.o.Client.HTTPClient(), s.root)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		s.greeting = greeting
	}
	p.noteRefusal(s, err)
	return err
}

// quarantine takes s out of service and starts the probes that bring it back. The
// first probe follows at once, unless s has failed again without a success since the
// last outage. Free instances are closed, and leased ones are not reused; current
// leases keep working unless the process has ended. The caller must hold mu.
func (p *Pool) quarantine(s *server, err error) {
	s.lastErr = err
	if s.down || p.closed {
		return
	}
	s.era++
	s.downSince = time.Now()
	pause := backoff.Delay(p.o.ProbePause, p.o.ProbeMax, s.takenOut())
	p.counts.Quarantines++
	p.discardFree(s)
	p.log.Warn("environment server taken out of service", "server", s.url, "error", err)
	p.spawn(func() { p.probeUntilUp(s, pause) })
}

// probeUntilUp probes s until it answers or the pool is closed.
func (p *Pool) probeUntilUp(s *server, pause time.Duration) {
	for backoff.Sleep(p.life, pause) {
		err := p.probe(p.life, s)
		p.mu.Lock()
		if !s.down { // another goroutine brought the server back
			p.mu.Unlock()
			return
		}
		if err == nil {
			s.restored()
			p.notify()
			p.mu.Unlock()
			p.log.Info("environment server back in service", "server", s.url)
			return
		}
		s.lastErr = err
		pause = backoff.Delay(p.o.ProbePause, p.o.ProbeMax, s.probeFailed())
		p.mu.Unlock()
	}
}
