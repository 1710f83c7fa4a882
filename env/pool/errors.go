package pool

import (
	"errors"
	"fmt"
	"time"
)

// ErrFull is the error of AcquireAt with Place.NoWait if every server in service has
// its maximum of leases.
var ErrFull = errors.New("all instances of the environment servers in service are in use, and no server can create another one")

// ErrClosed is the error of Acquire after Close.
var ErrClosed = errors.New("the pool of environment servers is closed")

// DownError is the error if all servers of an environment are down.
type DownError struct {
	Env    string
	Waited time.Duration // 0: the error is from Check at the start
	Err    error         // the last failures of all servers
}

func (e *DownError) Error() string {
	if e.Waited == 0 {
		return fmt.Sprintf("environment %s: no server answers: %v", e.Env, e.Err)
	}
	return fmt.Sprintf("environment %s: no server answered for %v: %v", e.Env, e.Waited, e.Err)
}

func (e *DownError) Unwrap() error { return e.Err }

// ServerDownError is the error if the only server that Place allows is down while
// others are in service.
type ServerDownError struct {
	Env, Server string
	Waited      time.Duration
	Err         error // the server's last failure
}

func (e *ServerDownError) Error() string {
	return fmt.Sprintf("environment %s: server %s did not answer for %v: %v", e.Env, e.Server, e.Waited, e.Err)
}

func (e *ServerDownError) Unwrap() error { return e.Err }

// down returns the last failures of the servers that the Place allows, and the
// time when the last of these servers was taken out of service. failures is nil if one
// of them is in service. others reports whether another server is in service; if not, failures
// contains the failures of all servers.
func (p *Pool) down(at Place) (since time.Time, others bool, failures error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var allowed, rest []error
	for _, s := range p.servers {
		switch {
		case !s.down && at.allows(s):
			return time.Time{}, false, nil
		case !s.down:
			others = true
		case at.allows(s):
			allowed = append(allowed, s.lastErr)
			if s.downSince.After(since) {
				since = s.downSince
			}
		default:
			rest = append(rest, s.lastErr)
		}
	}
	if !others {
		allowed = append(allowed, rest...)
	}
	return since, others, errors.Join(allowed...)
}
