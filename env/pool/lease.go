package pool

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

type exchange = data.Exchange

// Lease is an instance for one episode, or several in a row. Like its Client
// it belongs to one goroutine at a time, and ends with one Release or Fail.
type Lease struct {
	pool     *Pool
	server   *server
	slot     *slot
	released atomic.Bool
}

// Client is the leased instance. Call Reset first: it may hold the end of an
// earlier episode.
func (l *Lease) Client() env.Client { return tasked{l.slot.client, l.slot} }

// tasked is the client of a lease. It notes which task the instance is on, since
// what a server answers to a reset speaks of that as well.
type tasked struct {
	env.Client
	slot *slot
}

func (c tasked) Reset(ctx context.Context, index int) (env.Obs, error) {
	c.slot.task = index
	return c.Client.Reset(ctx, index)
}

// Recall makes a leased client a Recaller, which tells nothing where the client
// is none.
func (c tasked) Recall(ctx context.Context) (env.StepResult, bool, error) {
	if r, ok := c.Client.(env.Recaller); ok {
		return r.Recall(ctx)
	}
	return env.StepResult{}, false, nil
}

// Server is the address of the instance's server, without credentials.
func (l *Lease) Server() string { return l.server.name }

// Record sends the exchanges from here on to r. If the instance was created
// for this lease, r first gets the exchanges that created it.
func (l *Lease) Record(r env.Recorder) {
	if r != nil {
		for _, x := range l.slot.early {
			r(x)
		}
	}
	l.slot.early, l.slot.record = nil, r
}

// Created are the exchanges that created the instance, where that was for an
// earlier lease: without them nobody can tell what the instance is called.
func (l *Lease) Created() []data.Exchange {
	if !l.slot.served {
		return nil
	}
	return l.slot.created
}

// keep is the Recorder of a slot's client.
func (s *slot) keep(x exchange) {
	switch {
	case s.record != nil:
		s.record(x)
	case s.client == nil: // being created
		s.early = append(s.early, x)
		s.created = s.early
	}
}

// Release ends the lease. ok says that the instance and its server behaved;
// otherwise the instance is dropped and the server probed before it is used
// again. Only the first Release or Fail of a lease counts.
func (l *Lease) Release(ok bool) { l.end(ok, nil, !ok) }

// Fail ends the lease after err. The instance is dropped. What ServerFault says
// the server is to blame for counts as one failed exchange of its row, unless
// it was counted when it happened, as the failures of clients are.
func (l *Lease) Fail(err error) { l.end(false, err, false) }

// end gives the instance back; blame takes its server out of service.
func (l *Lease) end(ok bool, err error, blame bool) {
	if l.released.Swap(true) {
		return
	}
	p, s, sl := l.pool, l.server, l.slot
	sl.record, sl.early, sl.served = nil, nil, true
	p.mu.Lock()
	defer p.mu.Unlock()
	s.live--
	if ok && !p.closed && sl.era == s.era {
		s.free = append(s.free, sl)
	} else {
		p.giveBack(s, sl)
	}
	var known *env.Error
	switch {
	case blame && sl.era == s.era:
		p.quarantine(s, err)
	case env.ServerFault(err) && errors.As(err, &known) && !known.Observed:
		p.heed(s, s.failed(err), err)
	}
	p.notify()
}

// giveBack closes an instance beside the caller: a server that hangs must not
// hold up an episode. What the server says to it changes nothing.
// The caller holds mu.
func (p *Pool) giveBack(s *server, sl *slot) {
	if s.held[sl.id] == sl {
		delete(s.held, sl.id)
	}
	p.spawn(func() {
		ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
		defer cancel()
		if err := sl.client.Close(ctx); err != nil {
			p.log.Debug("environment instance not given back", "server", s.url, "error", err)
		}
	})
}
