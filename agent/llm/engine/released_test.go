package engine

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestReleased frees the memory while sessions are open and reply. Their replies must equal those without it.
func TestReleased(t *testing.T) {
	for name, o := range map[string]Options{"shared prefixes": {ChunkTokens: 6}, "deterministic": {ChunkTokens: 6, Deterministic: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFake(480, 16)
			s := start(t, f, o)
			var wg sync.WaitGroup
			var sessions []*Session
			for i := range 3 {
				sessions = append(sessions, mustOpen(t, s, SessionOptions{Key: makeScript(i).key, MaxContext: makeScript(i).limit}))
			}
			for i, session := range sessions {
				wg.Go(func() {
					defer s.Close(session)
					got, err := makeScript(i).play(t.Context(), s, session, nil)
					if err != nil {
						t.Error(err)
					}
					if diff := cmp.Diff(makeScript(i).want(), got, cmpopts.IgnoreFields(Reply{}, "Version", "Behind")); diff != "" {
						t.Error(diff)
					}
				})
			}
			for range 10 {
				err := s.Released(t.Context(), func() error {
					before := s.Stats().Steps
					for range 10 {
						runtime.Gosched()
					}
					if f.mu.Lock(); !f.released || len(f.kv) > 0 {
						t.Errorf("the memory is in use: released %v, %d sequences", f.released, len(f.kv))
					}
					f.mu.Unlock()
					if after := s.Stats().Steps; after != before {
						t.Errorf("%d steps ran while the memory was free", after-before)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
			wg.Wait()
		})
	}
}

// TestReleasedOnce checks that calls without a batch between them free the memory once, that the next batch computes the whole
// context, and that Reserve returns the backend's error.
func TestReleasedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(4096, 16)
		st := newStepper(f)
		s := start(t, f, Options{})
		session := mustOpen(t, s, SessionOptions{})
		a := generate(t.Context(), s, session, []int32{1, 2, 3}, Params{MaxNew: 4, Temperature: 1})
		<-st.entered
		released := make(chan error)
		go func() {
			for range 2 {
				released <- s.Released(t.Context(), func() error {
					if f.mu.Lock(); !f.released {
						t.Error("the memory is not free")
					}
					f.mu.Unlock()
					return nil
				})
			}
		}()
		synctest.Wait() // the first call waits for the step in flight
		st.release <- nil
		if err := <-released; err != nil {
			t.Fatal(err)
		}
		for n := range 2 {
			if batch := <-st.entered; len(batch) != 1 || batch[0].Pos != 0 || len(batch[0].Tokens) != 4+n {
				t.Errorf("step after call %d: got %+v, want the whole context from position 0", n+1, batch)
			}
			if n == 0 {
				synctest.Wait() // the second call waits for this step
				st.release <- nil
				if err := <-released; err != nil {
					t.Fatal(err)
				}
			}
		}
		st.off(f)
		if r := <-a; r.err != nil || len(r.reply.IDs) != 4 {
			t.Errorf("reply %+v, want 4 ids", r)
		}
		if f.releases != 2 {
			t.Errorf("the memory was freed %d times, want 2: once before each batch", f.releases)
		}
		nothing := func() error { return nil }
		for range 3 {
			if err := s.Released(t.Context(), nothing); err != nil {
				t.Fatal(err)
			}
		}
		if f.releases != 3 {
			t.Errorf("three calls without a batch freed the memory %d times more, want 1", f.releases-2)
		}
		f.full = errors.New("full")
		if err := s.Reserve(t.Context()); !errors.Is(err, f.full) {
			t.Errorf("Reserve returned %v, want the error of the backend", err)
		}
		if r := <-generate(t.Context(), s, session, []int32{1}, Params{MaxNew: 1, Temperature: 1}); !errors.Is(r.err, f.full) {
			t.Errorf("a reply without memory: error %v, want the error of the backend", r.err)
		}
	})
}
