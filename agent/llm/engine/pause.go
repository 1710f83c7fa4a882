package engine

import "context"

// Pause waits for the step in flight and stops the scheduler from starting
// another until Resume. Sessions closed before Pause have freed their memory
// when it returns. Pauses nest; calls of Generate wait until the last Resume.
func (s *Scheduler) Pause(ctx context.Context) error {
	granted := make(chan struct{})
	s.mu.Lock()
	if s.shutdown {
		s.mu.Unlock()
		return ErrShutdown
	}
	s.pausing = append(s.pausing, granted)
	s.changed()
	s.mu.Unlock()

	select {
	case <-granted:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shutdown {
		return ErrShutdown
	}
	if ctx.Err() == nil {
		return nil
	}
	before := len(s.pausing)
	s.pausing = remove(s.pausing, granted)
	if len(s.pausing) == before { // granted in the meantime
		s.held--
	}
	s.changed()
	return ctx.Err()
}

// Resume undoes one Pause.
func (s *Scheduler) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == 0 {
		panic("engine: Resume without Pause")
	}
	s.held--
	s.changed()
}

// Exclusive runs f while the scheduler is paused, as for phases of training that
// change the weights.
func (s *Scheduler) Exclusive(ctx context.Context, f func() error) error {
	if err := s.Pause(ctx); err != nil {
		return err
	}
	defer s.Resume()
	return f()
}

// grantPauses lets all waiting calls of Pause return. s.mu is held and no step
// is in flight.
func (s *Scheduler) grantPauses() {
	s.held += len(s.pausing)
	for _, w := range s.pausing {
		close(w)
	}
	s.pausing = nil
}
