package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
			if diff := cmp.Diff(sc.want(), got, cmpopts.IgnoreFields(Reply{}, "Version", "Behind")); diff != "" {
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
// the weights, also if their version stays. The fake backend reports samples that use KV of another version.
func TestNewWeights(t *testing.T) {
	for _, version := range []int64{0, 5} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(4096, 16)
			st := newStepper(f)
			s := start(t, f, Options{})
			session := mustOpen(t, s, SessionOptions{})
			a := generate(t.Context(), s, session, []int32{1, 2, 3}, Params{MaxNew: 4, Temperature: 1})
			<-st.entered
			updated := make(chan error)
			go func() {
				if version == 0 {
					updated <- s.ChangeWeights(t.Context(), func() error { return nil })
					return
				}
				updated <- s.Exclusive(t.Context(), func() error { f.version.Store(version); return nil })
			}()
			synctest.Wait() // the update waits for the step in flight
			st.release <- nil
			if err := <-updated; err != nil {
				t.Fatal(err)
			}
			if batch := <-st.entered; len(batch) != 1 || batch[0].Pos != 0 || len(batch[0].Tokens) != 4 {
				t.Errorf("step after the update: got %+v, want the whole context from position 0", batch)
			}
			st.off(f)
			if r := <-a; r.err != nil || r.reply.Version != version || r.reply.Behind != version || len(r.reply.IDs) != 4 {
				t.Errorf("reply %+v, want 4 ids of version %d that began with version 0", r, version)
			}
		})
	}
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

// TestYield checks that Yield lasts until the replies in progress have ended, or until its limit.
func TestYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(4096, 16)
		st := newStepper(f)
		s := start(t, f, Options{})
		took := func(limit time.Duration) time.Duration {
			began := time.Now()
			s.Yield(t.Context(), limit)
			return time.Since(began)
		}
		if d := took(time.Hour); d != 0 {
			t.Errorf("an idle engine took %v, want no time", d)
		}
		session := mustOpen(t, s, SessionOptions{})
		a := generate(t.Context(), s, session, []int32{1}, Params{MaxNew: 3, Temperature: 1})
		<-st.entered
		if d := took(time.Minute); d != time.Minute {
			t.Errorf("an engine in a batch took %v, want the limit", d)
		}
		go func() {
			time.Sleep(time.Second)
			st.off(f)
		}()
		if d := took(time.Hour); d != time.Second {
			t.Errorf("an engine took %v, want until the end of the reply", d)
		}
		if r := <-a; r.err != nil {
			t.Error(r.err)
		}
	})
}
