package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// contextsOf plays every turn of a script in a separate context and returns the replies.
func contextsOf(ctx context.Context, e Engine, session *Session, sc script, pause func()) (replies []Reply, err error) {
	defer func() { e.Close(session) }()
	for turn, ids := range sc.turns {
		pause()
		if turn > 0 {
			if session, err = Restart(ctx, e, session); err != nil {
				return nil, err
			}
		}
		p := sc.params
		p.Turn = turn
		r, err := e.Generate(ctx, session, ids, p)
		if err != nil {
			return nil, err
		}
		replies = append(replies, r)
	}
	return replies, nil
}

// closeAndOpen is a Scheduler without the method Restart.
type closeAndOpen struct{ Engine }

// TestRestartedSessionIsFresh checks that a context after a restart gives the same replies as the context of
// a new session, for any size of the memory, and that Restart frees the memory of the old context.
func TestRestartedSessionIsFresh(t *testing.T) {
	const n = 12
	want := make([][]Reply, n)
	alone := start(t, newFake(1<<16, 16), Options{})
	for i := range n {
		sc := makeScript(i)
		for turn, ids := range sc.turns {
			session := mustOpen(t, alone, SessionOptions{Key: sc.key, MaxContext: sc.limit})
			p := sc.params
			p.Turn = turn
			r, err := alone.Generate(t.Context(), session, ids, p)
			if err != nil {
				t.Fatal(err)
			}
			alone.Close(session)
			want[i] = append(want[i], r)
		}
	}
	for _, tt := range []struct {
		name     string
		capacity int
		options  Options
		wrap     func(*Scheduler) Engine
	}{
		{"roomy", 1 << 16, Options{}, nil},
		{"tight", 300, Options{ChunkTokens: 7}, nil},
		{"deterministic", 300, Options{Deterministic: true}, nil},
		{"an engine that cannot", 1 << 16, Options{}, func(s *Scheduler) Engine { return closeAndOpen{s} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, newFake(tt.capacity, 16), tt.options)
			e := Engine(s)
			if tt.wrap != nil {
				e = tt.wrap(s)
			}
			var wg sync.WaitGroup
			sessions := make([]*Session, n)
			for i := range n {
				sc := makeScript(i)
				if tt.options.Deterministic {
					sessions[i] = mustOpen(t, s, SessionOptions{Key: sc.key, MaxContext: sc.limit})
				}
			}
			for i := range n {
				wg.Go(func() {
					sc, session := makeScript(i), sessions[i]
					if session == nil {
						var err error
						if session, err = e.Open(t.Context(), SessionOptions{Key: sc.key, MaxContext: sc.limit}); err != nil {
							t.Error(err)
							return
						}
					}
					got, err := contextsOf(t.Context(), e, session, sc, runtime.Gosched)
					if err != nil {
						t.Error(err)
					}
					if diff := cmp.Diff(want[i], got); diff != "" {
						t.Errorf("session %d (-want +got):\n%s", i, diff)
					}
				})
			}
			wg.Wait()
			if st := s.Stats(); st.Open != 0 {
				t.Errorf("%d sessions are open after all were closed, want 0", st.Open)
			}
		})
	}
}

// TestRestartIsDeterministic checks that in deterministic mode the other sessions wait for a restarted session.
func TestRestartIsDeterministic(t *testing.T) {
	var first []string
	for run := range 4 {
		f := newFake(300, 16)
		s := start(t, f, Options{Deterministic: true, ChunkTokens: 8, PrefillTokens: 24})
		sessions := make([]*Session, 8)
		for i := range sessions {
			sc := makeScript(i)
			sessions[i] = mustOpen(t, s, SessionOptions{Key: sc.key, MaxContext: sc.limit})
		}
		var wg sync.WaitGroup
		for i, session := range sessions {
			rng := rand.New(rand.NewPCG(uint64(run), uint64(i)))
			wg.Go(func() {
				_, err := contextsOf(t.Context(), s, session, makeScript(i), func() {
					for range rng.IntN(40) {
						runtime.Gosched()
					}
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if run == 0 {
			first = f.shapes
		} else if diff := cmp.Diff(first, f.shapes); diff != "" {
			t.Fatalf("run %d (-first +this):\n%s", run, diff)
		}
	}
}

func TestRestartRefuses(t *testing.T) {
	f := newFake(4096, 16)
	st := newStepper(f)
	s := start(t, f, Options{})
	session := mustOpen(t, s, SessionOptions{})
	a := generate(t.Context(), s, session, []int32{1, 2, 3}, Params{MaxNew: 3, Temperature: 1})
	<-st.entered
	if err := s.Restart(session); err == nil {
		t.Error("Restart during a reply: no error")
	}
	st.off(f)
	if r := <-a; r.err != nil || len(r.reply.IDs) != 3 {
		t.Errorf("reply in progress during Restart: got %+v", r)
	}
	s.Close(session)
	if err := s.Restart(session); !errors.Is(err, ErrSessionClosed) {
		t.Errorf("Restart of a closed session: got error %v", err)
	}
	if _, err := Restart(t.Context(), s, session); !errors.Is(err, ErrSessionClosed) {
		t.Errorf("Restart of a closed session: got error %v", err)
	}
	if err := s.Restart(NewSession(SessionOptions{}, "of another")); err == nil {
		t.Error("Restart accepts a session of another engine")
	}
	open := mustOpen(t, s, SessionOptions{})
	s.Shutdown()
	if err := s.Restart(open); err == nil {
		t.Error("Restart after the shutdown: no error")
	}
}
