package engine

import (
	"context"
	"fmt"
)

// run is the main loop of the scheduler's goroutine.
func (s *Scheduler) run(ctx context.Context) {
	defer close(s.done)
	for {
		s.turn <- struct{}{}
		worked, ended := s.runBatch(ctx)
		<-s.turn // a waiting Exclusive runs before the next batch
		if ended {
			return
		}
		if !worked {
			<-s.wake
		}
	}
}

// runBatch frees dropped sequences and runs the next batch. worked is false if
// there was no batch; ended is true after a shutdown.
func (s *Scheduler) runBatch(ctx context.Context) (worked, ended bool) {
	s.mu.Lock()
	var batch []*sequence
	var work []Work
	if ended = s.shutdown; ended {
		s.abandon()
	} else {
		batch, work = s.form()
	}
	drops := s.takeDrops()
	step := s.stats.Steps + 1
	s.mu.Unlock()

	s.drop(drops)
	if len(batch) == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, idle := range s.yields {
			close(idle)
		}
		s.yields = nil
		return false, ended
	}
	out, err := s.step(ctx, work)
	if err != nil {
		err = &BackendError{Step: step, Rows: len(work), Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apply(batch, work, out, err)
	return true, false
}

// step runs one batch. A panic of the backend becomes an error of the batch, so
// that the training run continues.
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
// a drop, and a faulty backend fails its next step.
func (s *Scheduler) drop(ids []SeqID) {
	for _, id := range ids {
		func() {
			defer func() { _ = recover() }()
			s.backend.Drop(id)
		}()
	}
}

// apply distributes the results of a batch to its sequences. The caller has locked s.mu.
func (s *Scheduler) apply(batch []*sequence, work []Work, out []Sampled, err error) {
	s.stats.Steps++
	s.stats.Rows += int64(len(batch))
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
		if q.call == nil { // q was closed or cancelled during the step
			s.evict(q)
			continue
		}
		if work[i].Pos >= q.call.start {
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

// abandon closes all sessions and fails their calls. The caller has locked s.mu.
func (s *Scheduler) abandon() {
	for _, q := range s.open {
		q.closed = true
		if q.call != nil {
			s.finish(q, "", ErrShutdown)
		}
		s.evict(q)
	}
	s.open = nil
}

func (s *Scheduler) takeDrops() []SeqID {
	drops := s.drops
	s.drops = nil
	return drops
}
