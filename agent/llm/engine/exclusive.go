package engine

import "context"

// Exclusive runs f while no step is in flight and none starts, for training
// phases that change the weights. Sessions closed before the call have freed
// their memory when f starts. f must not call Exclusive or Shutdown.
func (s *Scheduler) Exclusive(ctx context.Context, f func() error) error {
	select {
	case s.turn <- struct{}{}:
	case <-s.done:
		return ErrShutdown
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.shutdown {
		s.mu.Unlock()
		return ErrShutdown
	}
	drops := s.takeDrops()
	s.mu.Unlock()
	s.drop(drops)
	return f()
}
