package pool

import (
	"fmt"
	"slices"
	"time"
)

// Place says on which servers AcquireAt leases an instance. The zero value
// allows every server.
type Place struct {
	// Only is the one server allowed, as Lease.Server names it; "" allows all.
	Only string
	// Avoid lists servers to use only where no other has room.
	Avoid []string
	// NoWait is for a caller that holds leases and gives none back before it has
	// this one: where AcquireAt would wait for a lease to come back, the error
	// is ErrFull.
	NoWait bool
}

func (at Place) allows(s *server) bool { return at.Only == "" || s.name == at.Only }

// prefers reports whether a is the better server of the two: one that is not
// avoided, then one that is not being asked whether it is there, then the one
// with fewer leases.
func (at Place) prefers(a, b *server) bool {
	if x, y := slices.Contains(at.Avoid, a.name), slices.Contains(at.Avoid, b.name); x != y {
		return y
	}
	if a.asking != b.asking {
		return b.asking
	}
	return a.live < b.live
}

// has reports whether the pool has a server of that name.
func (p *Pool) has(name string) bool {
	return slices.ContainsFunc(p.servers, func(s *server) bool { return s.name == name })
}

// InService lists the servers that are not out of service.
func (p *Pool) InService() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for _, s := range p.servers {
		if !s.down {
			names = append(names, s.name)
		}
	}
	return names
}

// ServerDownError says that the one server a lease was allowed on stays down
// while others of the environment answer.
type ServerDownError struct {
	Env, Server string
	Waited      time.Duration
	Err         error // the server's last failure
}

// Error names the server.
func (e *ServerDownError) Error() string {
	return fmt.Sprintf("environment %s: server %s did not answer for %v: %v", e.Env, e.Server, e.Waited, e.Err)
}

// Unwrap gives the server's failure, for errors.Is and errors.As.
func (e *ServerDownError) Unwrap() error { return e.Err }

// WarnOnce logs message as a warning the first time that it is called with
// about, so that what every rollout finds again is told once a run.
func (p *Pool) WarnOnce(about, message string, args ...any) {
	p.mu.Lock()
	again := p.warned[about]
	p.warned[about] = true
	p.mu.Unlock()
	if !again {
		p.log.Warn(message, append([]any{"env", p.spec.Name}, args...)...)
	}
}
