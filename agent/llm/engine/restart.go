package engine

import "context"

// Restarter is an Engine that can empty a session's context in place. A
// restarted session keeps its position in the deterministic order of batches.
// With Close and Open instead, this position would depend on timing.
type Restarter interface {
	// Restart empties the session's context. No call may be in progress.
	Restart(s *Session) error
}

// Restart returns a session of e with an empty context. If e is a Restarter, it
// empties s and returns s; otherwise it closes s and opens a session with the same
// options. After an error s is closed.
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

// Restart empties a session's context; see Restarter. The length of the old
// context updates the expected length, as when a session is closed.
func (s *Scheduler) Restart(session *Session) error {
	q, err := s.sequenceOf(session)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkUsable(q); err != nil {
		return err
	}
	s.observeLength(len(q.ids))
	if s.shares() && q.cached > 0 {
		q.previous, q.cached = q.ids[:q.cached], 0 // the next context may share a prefix with this one
	} else {
		s.evict(q)
	}
	q.ids = nil
	s.admitOpeners()
	return nil
}
