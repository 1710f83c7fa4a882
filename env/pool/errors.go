package pool

import (
	"errors"
	"fmt"
	"time"
)

// ErrFull is returned with Place.NoWait if all servers in service hold as many
// leases as they can.
var ErrFull = errors.New("every instance that the environment servers in service can hold is in use")

// ErrClosed is returned by Acquire after Close.
var ErrClosed = errors.New("the pool of environment servers is closed")

// DownError is the error of an environment all of whose servers are down.
type DownError struct {
	Env    string
	Waited time.Duration // 0: at the start
	Err    error         // the last failure of every server
}

func (e *DownError) Error() string {
	if e.Waited == 0 {
		return fmt.Sprintf("environment %s: no server answers: %v", e.Env, e.Err)
	}
	return fmt.Sprintf("environment %s: no server answered for %v: %v", e.Env, e.Waited, e.Err)
}

func (e *DownError) Unwrap() error { return e.Err }

// ServerDownError is the error of the only server that Place allows, if it is
// down while others are in service.
type ServerDownError struct {
	Env, Server string
	Waited      time.Duration
	Err         error // the server's last failure
}

func (e *ServerDownError) Error() string {
	return fmt.Sprintf("environment %s: server %s did not answer for %v: %v", e.Env, e.Server, e.Waited, e.Err)
}

func (e *ServerDownError) Unwrap() error { return e.Err }

// down returns the last failures of the servers that at allows, nil if one of
// them is in service, and the time when the last one was taken out of service.
// others reports whether a server that at does not allow is in service. If none
// is, the failures of all servers are returned.
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
