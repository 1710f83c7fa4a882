package pool

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// Place restricts the servers on which AcquireAt leases an instance. The zero value
// allows all servers.
type Place struct {
	// Only is the Lease.Server of the only allowed server; "" allows all servers.
	Only string
	// Avoid lists servers that are used only if no other server has room.
	Avoid []string
	// NoWait makes AcquireAt return ErrFull instead of waiting until a lease is
	// released. To avoid a deadlock, a caller that keeps other leases while it
	// acquires one must set NoWait.
	NoWait bool
}

func (at Place) allows(s *server) bool { return at.Only == "" || s.name == at.Only }

// prefers reports whether server a is a better choice than server b: first a
// server that is not in Avoid, then a server that is not suspect, then the server with fewer leases.
func (at Place) prefers(a, b *server) bool {
	if x, y := slices.Contains(at.Avoid, a.name), slices.Contains(at.Avoid, b.name); x != y {
		return y
	}
	if a.suspect() != b.suspect() {
		return b.suspect()
	}
	return a.live < b.live
}

// Acquire leases an instance, and creates one if none is free. It skips servers that
// fail. The error is the error of ctx or of a server that refused the request. It is
// a DownError if every server stays down for Options.WaitHealthy.
func (p *Pool) Acquire(ctx context.Context) (*Lease, error) { return p.AcquireAt(ctx, Place{}) }

// AcquireAt is like Acquire, but uses only servers that the Place allows. The error is a
// ServerDownError if the only allowed server has been down for Options.WaitHealthy while
// others are in service. This time starts when the server is taken out of service, so if
// several episodes in a row need the server, the first one waits and the others fail at
// once.
func (p *Pool) AcquireAt(ctx context.Context, at Place) (*Lease, error) {
	if at.Only != "" && !slices.ContainsFunc(p.servers, at.allows) {
		return nil, fmt.Errorf("environment %s: %s is not one of the servers (%s)", p.spec.Name, at.Only, p)
	}
	var downSince time.Time
	for {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		s, sl, changed, checking, err := p.pick(at)
		if err != nil {
			return nil, err
		}
		if s != nil {
			if sl == nil {
				if sl, err = p.create(ctx, s); err != nil {
					return nil, err
				}
			}
			if sl != nil {
				return &Lease{pool: p, server: s, slot: sl}, nil
			}
			continue
		}
		limit := time.Duration(math.MaxInt64)
		if since, others, down := p.down(at); down != nil {
			if downSince.IsZero() {
				downSince = time.Now()
			}
			if !others {
				since = downSince
			}
			if limit = p.o.WaitHealthy - time.Since(since); limit <= 0 {
				if others {
					return nil, &ServerDownError{Env: p.spec.Name, Server: at.Only, Waited: p.o.WaitHealthy, Err: down}
				}
				return nil, &DownError{Env: p.spec.Name, Waited: p.o.WaitHealthy, Err: down}
			}
		} else if !checking {
			if at.NoWait {
				return nil, ErrFull
			}
			downSince = time.Time{}
		}
		t := time.NewTimer(limit)
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// pick reserves a lease on the best server among those that the Place allows, with a free
// instance if the server has one. A server that is being checked leases only its free
// instances. If no server has room, pick returns the channel to wait on. checking is then
// true if a server may have room after its check.
func (p *Pool) pick(at Place) (best *server, sl *slot, changed <-chan struct{}, checking bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, nil, false, ErrClosed
	}
	for _, s := range p.servers {
		if !at.allows(s) || s.down || p.o.MaxPerServer > 0 && s.live >= p.o.MaxPerServer {
			continue
		}
		if s.suspect() && len(s.free) == 0 {
			checking = true
			continue
		}
		if best == nil || at.prefers(s, best) {
			best = s
		}
	}
	if best == nil {
		return nil, nil, p.changed, checking, nil
	}
	best.live++
	if n := len(best.free); n > 0 {
		sl = best.free[n-1]
		best.free = best.free[:n-1]
	}
	return best, sl, nil, false, nil
}
