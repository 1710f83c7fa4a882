package engine

import (
	"context"
	"fmt"
)

// run is the scheduler's goroutine.
func (s *Scheduler) run(ctx context.Context) {
	defer close(s.done)
	for {
		s.mu.Lock()
		if s.shutdown {
			s.abandon()
			drops := s.takeDrops()
			s.mu.Unlock()
			s.drop(drops)
			return
		}
		if s.held > 0 {
			s.grantPauses()
			s.mu.Unlock()
			<-s.wake
			continue
		}
		var batch []*sequence
		var work []Work
		if len(s.pausing) == 0 {
			batch, work = s.form()
		}
		drops := s.takeDrops()
		if len(drops) == 0 && len(batch) == 0 {
			s.grantPauses()
			s.mu.Unlock()
			<-s.wake
			continue
		}
		step := s.stats.Steps + 1
		s.mu.Unlock()

		s.drop(drops)
		if len(batch) == 0 {
			continue
		}
		out, err := s.step(ctx, work)
		if err != nil {
			err = &BackendError{Step: step, Rows: len(work), Err: err}
		}

		s.mu.Lock()
		s.apply(batch, work, out, err)
		s.mu.Unlock()
	}
}

// step runs one batch. It turns a panic of the backend into an error of the
// batch, so that it does not end the training run.
func (s *Scheduler) step(ctx context.Context, work []Work) (out []Sampled, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the backend panicked: %v", r)
		}
	}()
	out, err = s.backend.Step(ctx, work)
	if err == nil && len(out) != len(work) {
		err = fmt.Errorf("the backend returned %d results for %d sequences", len(out), len(work))
	}
	return out, err
}

// drop frees sequences in the backend. It ignores a panic: no caller waits for
// a drop, and a broken backend fails its next step.
func (s *Scheduler) drop(ids []SeqID) {
	for _, id := range ids {
		func() {
			defer func() { _ = recover() }()
			s.backend.Drop(id)
		}()
	}
}

// apply distributes the results of a batch to its sequences. s.mu is held.
func (s *Scheduler) apply(batch []*sequence, work []Work, out []Sampled, err error) {
	s.stats.Steps++
	s.stats.Rows += int64(len(batch))
	s.stats.MaxRows = max(s.stats.MaxRows, len(batch))
	for i, q := range batch {
		q.inFlight, q.from = false, 0
		if err != nil {
			if q.call != nil {
				s.finish(q, "", err)
			}
			s.evict(q)
			continue
		}
		q.cached += len(work[i].Tokens)
		q.touched = s.stats.Steps
		if q.call == nil { // closed or cancelled while in flight
			s.evict(q)
			continue
		}
		if len(work[i].Tokens) == 1 && work[i].Sample {
			s.stats.DecodeTokens++
		} else {
			s.stats.PrefillTokens += int64(len(work[i].Tokens))
		}
		if !work[i].Sample {
			continue
		}
		s.stats.SampledTokens++
		if stop, ended := q.accept(out[i]); ended {
			s.finish(q, stop, nil)
		}
	}
}

// abandon fails all calls and waiting pauses. s.mu is held.
func (s *Scheduler) abandon() {
	for _, q := range s.open {
		q.closed = true
		if q.call != nil {
			s.finish(q, "", ErrShutdown)
		}
		s.evict(q)
	}
	s.open = nil
	for _, w := range s.pausing {
		close(w)
	}
	s.pausing = nil
}

func (s *Scheduler) takeDrops() []SeqID {
	drops := s.drops
	s.drops = nil
	return drops
}
