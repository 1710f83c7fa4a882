package pool

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/env"
)

// minCreates is the least number of creates before create returns an error for a server
// that returns only instances in use.
const minCreates = 8

// create makes an instance on s for a lease that pick has reserved. It returns
// neither a slot nor an error if s failed; the caller then picks again.
func (p *Pool) create(ctx context.Context, s *server) (*slot, error) {
	sl := &slot{}
	o := p.o.Client
	o.BaseURL, o.Record, o.Gate = s.url, sl.keep, s.gate
	o.Observe = func(x env.Attempt) bool { return p.observe(s, sl, x) }
	var err error
	for range max(p.o.MaxPerServer, minCreates) {
		p.mu.Lock()
		sl.era = s.era
		before, b := s.made, p.bound(s)
		p.mu.Unlock()
		bound := *p.o.Client.HTTPClient()
		bound.Transport = b
		o.Client = &bound
		var client env.Client
		if client, err = p.spec.New(ctx, o); err != nil {
			break
		}
		if p.hold(s, sl, client, b, before) {
			if err := p.identify(ctx, s, client); err != nil {
				(&Lease{pool: p, server: s, slot: sl}).Fail(err)
				return nil, err
			}
			return sl, nil
		}
		// Another slot or program uses the instance: it is neither used nor closed.
		err = fmt.Errorf("environment %s: %s returns instances that are in use: its limit is below env.max_instances, or another program uses it", p.spec.Name, s.url)
		if b.lost() {
			err = env.ErrRestarted
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.live--
	p.notify()
	switch {
	case errors.Is(err, env.ErrRestarted): // the restarted server is not at fault
	case env.ServerFault(err):
		p.apply(s, s.createFailed(), err)
	default:
		return nil, err
	}
	return nil, nil
}

// hold assigns the instance of client to sl and returns true. It returns false if
// another slot has the instance, or if the server was restarted during the creation.
// before is the value of s.made when the request was sent.
func (p *Pool) hold(s *server, sl *slot, client env.Client, b *boundTransport, before int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.lost() {
		return false // the old or the new process may have created the instance
	}
	if known, ok := client.(interface{ ServerID() string }); ok {
		id := known.ServerID()
		if other := s.held[id]; other != nil {
			// An id that is in use proves a restart, unless the server reuses instances
			// when it is full, or gives the same id to concurrent creations.
			if p.spec.MaxInstances > 0 || other.number > before {
				return false
			}
			p.log.Warn("environment server returned an id that is in use, so it has restarted and earlier instances are lost",
				"server", s.url, "id", id)
			p.invalidateAll(s)
			sl.era = s.era
			b.start.Store(s.starts.Load()) // the instance belongs to the new process
		}
		sl.id = id
		s.held[id] = sl
	}
	s.made++
	sl.client, sl.number = client, s.made
	s.createOK()
	p.counts.Instances++
	return true
}
