package engine

import (
	"context"
	"time"
)

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

// Yield waits until there is no batch to run, for at most the given time. A caller that shares
// the device with the engine calls it between two pieces of its own work.
func (s *Scheduler) Yield(ctx context.Context, atMost time.Duration) {
	idle := make(chan struct{})
	s.mu.Lock()
	s.yields = append(s.yields, idle)
	s.changed()
	s.mu.Unlock()
	limit := time.NewTimer(atMost)
	defer limit.Stop()
	select {
	case <-idle:
	case <-limit.C:
	case <-s.done:
	case <-ctx.Done():
	}
}

// ChangeWeights runs f, which changes the weights, like Exclusive, and then frees all KV: it
// was computed with the earlier weights. Replies in progress continue with the new weights.
func (s *Scheduler) ChangeWeights(ctx context.Context, f func() error) error {
	return s.Exclusive(ctx, func() error {
		err := f()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.evictAll()
		return err
	})
}

// Released runs f like Exclusive, while the memory of the KV cache is free for other tensors. Open sessions lose their KV, which the
// next batch computes again. The memory stays free until Reserve or the next batch, so several calls in a row free it once.
func (s *Scheduler) Released(ctx context.Context, f func() error) error {
	return s.Exclusive(ctx, func() error {
		s.mu.Lock()
		s.evictAll()
		drops := s.takeDrops()
		s.mu.Unlock()
		s.drop(drops)
		if err := s.backend.Release(ctx); err != nil {
			return err
		}
		return f()
	})
}

// Reserve reserves the memory that Released has freed, so that the caller gets the error if it is too little. Otherwise the next
// batch fails.
func (s *Scheduler) Reserve(ctx context.Context) error {
	return s.Exclusive(ctx, func() error { return s.backend.Reserve(ctx) })
}

// evictAll frees the KV of all sessions. No batch is in flight. The caller has locked s.mu.
func (s *Scheduler) evictAll() {
	for _, q := range s.open {
		s.evict(q)
	}
}
