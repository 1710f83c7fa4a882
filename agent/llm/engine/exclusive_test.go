package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestExclusiveKeepsStepsOut(t *testing.T) {
	f := newFake(480, 16)
	s := start(t, f, Options{ChunkTokens: 6})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			sc := makeScript(i)
			session, err := s.Open(t.Context(), SessionOptions{Key: sc.key, MaxContext: sc.limit})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close(session)
			got, err := sc.play(t.Context(), s, session, nil)
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(sc.want(), got, cmpopts.IgnoreFields(Reply{}, "Version")); diff != "" {
				t.Error(diff)
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for i := range 20 {
				err := s.Exclusive(t.Context(), func() error {
					before := s.Stats().Steps
					for range 10 {
						if f.inStep.Load() {
							t.Error("a step is in flight during Exclusive")
						}
						runtime.Gosched()
					}
					if i%4 == 0 {
						f.version.Add(1)
					}
					if after := s.Stats().Steps; after != before {
						t.Errorf("%d steps ran during Exclusive", after-before)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestNewWeights checks that an open session is prefilled again after a change of
// the weights. The fake backend reports samples that use KV of other weights.
func TestNewWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(4096, 16)
		st := newStepper(f)
		s := start(t, f, Options{})
		session := mustOpen(t, s, SessionOptions{})
		a := generate(t.Context(), s, session, []int32{1, 2, 3}, Params{MaxNew: 4, Temperature: 1})
		<-st.entered
		updated := make(chan error)
		go func() {
			updated <- s.Exclusive(t.Context(), func() error { f.version.Store(5); return nil })
		}()
		synctest.Wait() // Exclusive waits for the step in flight
		st.release <- nil
		if err := <-updated; err != nil {
			t.Fatal(err)
		}
		if batch := <-st.entered; len(batch) != 1 || batch[0].Pos != 0 || len(batch[0].Tokens) != 4 {
			t.Errorf("step after the update: got %+v, want the whole context from position 0", batch)
		}
		st.off(f)
		if r := <-a; r.err != nil || r.reply.Version != 5 || len(r.reply.IDs) != 4 {
			t.Errorf("reply %+v, want 4 ids of version 5", r)
		}
	})
}

func TestExclusiveCancelled(t *testing.T) {
	f := newFake(4096, 16)
	st := newStepper(f)
	s := start(t, f, Options{})
	session := mustOpen(t, s, SessionOptions{})
	a := generate(t.Context(), s, session, []int32{1}, Params{MaxNew: 3, Temperature: 1})
	<-st.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Exclusive(ctx, func() error { t.Error("Exclusive ran its function"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	st.off(f)
	if r := <-a; r.err != nil { // the cancelled call must not block the scheduler
		t.Error(r.err)
	}
}
