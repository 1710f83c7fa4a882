package pool

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// Lease is an instance for one or more episodes in a row. It belongs to one
// goroutine at a time and ends with the first Release or Fail.
type Lease struct {
	pool   *Pool
	server *server
	slot   *slot
	ended  atomic.Bool
}

// Client returns the leased instance. Call Reset first: the instance may be at
// the end of an earlier episode.
func (l *Lease) Client() env.Client { return leased{l.slot.client, l.slot} }

// leased is the client of a lease. It stores the task of the last reset, since a
// failed reset may be due to the task.
type leased struct {
	env.Client
	slot *slot
}

func (c leased) Reset(ctx context.Context, index int) (env.Obs, error) {
	c.slot.task = index
	return c.Client.Reset(ctx, index)
}

// ResetTask implements env.TaskClient.
func (c leased) ResetTask(ctx context.Context, task data.Task) (env.Obs, error) {
	c.slot.task = task.Index
	return env.ResetTask(ctx, c.Client, task)
}

// Recall implements env.Recaller. The second result is false if c.Client is not a Recaller.
func (c leased) Recall(ctx context.Context) (env.StepResult, bool, error) {
	if r, ok := c.Client.(env.Recaller); ok {
		return r.Recall(ctx)
	}
	return env.StepResult{}, false, nil
}

// Server returns the address of the instance's server, without credentials.
func (l *Lease) Server() string { return l.server.name }

// Record sends all further exchanges to r. If the instance was created for this
// lease, r first receives the exchanges of its creation.
func (l *Lease) Record(r env.Recorder) {
	if r != nil {
		for _, x := range l.slot.early {
			r(x)
		}
	}
	l.slot.early, l.slot.record = nil, r
}

// Created returns the exchanges that created the instance. It returns nil if the
// instance was created for this lease, because Record then passes these exchanges on.
func (l *Lease) Created() []data.Exchange {
	if !l.slot.served {
		return nil
	}
	return l.slot.created
}

// keep is the Recorder of a slot's client.
func (s *slot) keep(x data.Exchange) {
	switch {
	case s.record != nil:
		s.record(x)
	case s.client == nil: // the instance is being created
		s.early = append(s.early, x)
		s.created = s.early
	}
}

// Release ends the lease and keeps the instance for the next lease.
func (l *Lease) Release() { l.end(true, nil) }

// Fail ends the lease because of err and closes the instance. If err is a ServerFault
// that the client has not observed, it counts as a failed request of the server.
func (l *Lease) Fail(err error) { l.end(false, err) }

func (l *Lease) end(reuse bool, err error) {
	if l.ended.Swap(true) {
		return
	}
	p, s, sl := l.pool, l.server, l.slot
	sl.record, sl.early, sl.served = nil, nil, true
	p.mu.Lock()
	defer p.mu.Unlock()
	s.live--
	if reuse && !p.closed && sl.era == s.era {
		s.free = append(s.free, sl)
	} else {
		p.discard(s, sl)
	}
	var e *env.Error
	if env.ServerFault(err) && errors.As(err, &e) && !e.Observed {
		p.apply(s, s.requestFailed(err), err)
	}
	p.notify()
}

// discard closes an instance in the background, since a server that hangs must not
// delay an episode. A failure is only logged. The caller must hold mu.
func (p *Pool) discard(s *server, sl *slot) {
	if s.held[sl.id] == sl {
		delete(s.held, sl.id)
	}
	p.spawn(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := sl.client.Close(ctx); err != nil {
			p.log.Debug("environment instance not closed", "server", s.url, "error", err)
		}
	})
}

// discardFree discards the free instances of s. The caller must hold mu.
func (p *Pool) discardFree(s *server) {
	for _, sl := range s.free {
		p.discard(s, sl)
	}
	s.free = nil
}
