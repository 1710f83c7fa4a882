package engine

import (
	"context"
	"errors"
)

// Restarter is an Engine that can begin a session's context anew. The session
// keeps its place: where batches are formed in a fixed order, they are waiting
// for it, and closing one to open another would depend on who comes first.
type Restarter interface {
	// Restart forgets everything the session was given and said. There must be
	// no call under way.
	Restart(s *Session) error
}

// Restart gives a session of e with an empty context in place of s: s itself
// where the engine can, else another with the same options. s is closed where
// there is an error.
func Restart(ctx context.Context, e Engine, s *Session) (*Session, error) {
	r, ok := e.(Restarter)
	if !ok {
		e.Close(s)
		return e.Open(ctx, s.Options())
	}
	if err := r.Restart(s); err != nil {
		e.Close(s)
		return nil, err
	}
	return s, nil
}

var _ Restarter = (*Scheduler)(nil)

// Restart empties a session's context; see Restarter. The length of the old one counts as
// that of a session which has ended.
func (s *Scheduler) Restart(session *Session) error {
	q, err := s.sequenceOf(session)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.shutdown:
		return ErrShutdown
	case q.closed:
		return ErrSessionClosed
	case q.broken:
		return ErrSessionBroken
	case q.call != nil:
		return errors.New("restart: the session has a call under way")
	}
	s.learn(len(q.ids))
	if s.shares() && q.cached > 0 {
		q.left, q.cached = q.ids[:q.cached], 0 // the next context may begin like this one
	} else {
		s.evict(q)
	}
	q.ids = nil
	s.admitOpeners()
	return nil
}
