package engine

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// countAdmitted opens n sessions in parallel and closes them. It returns the
// number of sessions that Open admits before the first session is closed.
func countAdmitted(t *testing.T, s *Scheduler, n, limit int) int {
	t.Helper()
	var wg sync.WaitGroup
	opened := make(chan *Session, n)
	before := s.Stats().Open
	for i := range n {
		wg.Go(func() {
			session, err := s.Open(t.Context(), SessionOptions{Key: Key{Task: fmt.Sprint(i)}, MaxContext: limit})
			if err != nil {
				t.Error(err)
			}
			opened <- session
		})
	}
	in := 0
	for queued := 0; in+queued < n; {
		runtime.Gosched()
		s.mu.Lock()
		in, queued = len(s.open)-before, len(s.opening)
		s.mu.Unlock()
	}
	for range n { // a closed session makes space for others
		s.Close(<-opened)
	}
	wg.Wait()
	return in
}

// TestOpenReserves checks that Open counts the expected memory of sessions that have not generated yet.
func TestOpenReserves(t *testing.T) {
	const n, budget = 8, 320
	for _, c := range []struct {
		name    string
		options Options
		limit   int
		want    int
	}{
		{"no expected length", Options{}, 100, n},
		{"up to the limit", Options{ExpectTokens: 100}, 100, 2}, // each session takes 7 blocks of 16 tokens; the budget has 20 blocks
		{"shorter", Options{ExpectTokens: 80}, 100, 4},
		{"no longer than the limit", Options{ExpectTokens: 1000}, 160, 2},
		{"the whole budget", Options{ExpectTokens: budget}, budget, 1},
		{"deterministic", Options{ExpectTokens: 100, Deterministic: true}, 100, n},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, newFake(budget, 16), c.options)
			if got := countAdmitted(t, s, n, c.limit); got != c.want {
				t.Errorf("Open admits %d of %d sessions, want %d", got, n, c.want)
			}
		})
	}
}

// TestOpenUsesObservedLengths checks that observed lengths replace the expected length, so that
// short episodes do not wait because of a long limit, or because of a single long episode.
func TestOpenUsesObservedLengths(t *testing.T) {
	const n, budget = 12, 320
	s := start(t, newFake(budget, 16), Options{ExpectTokens: budget})
	play := func(tokens int) {
		t.Helper()
		session := mustOpen(t, s, SessionOptions{})
		if _, err := s.Generate(t.Context(), session, make([]int32, tokens-1), Params{MaxNew: 1, Temperature: 1}); err != nil {
			t.Fatal(err)
		}
		s.Close(session)
	}
	check := func(when string, want int) {
		t.Helper()
		if got := countAdmitted(t, s, n, budget); got != want {
			t.Errorf("%s: Open admits %d of %d sessions, want %d", when, got, n, want)
		}
	}
	check("at first", 1)
	play(30)
	check("after 30 tokens", 10)
	play(150)
	check("after 150 tokens", 2)
	play(30)
	check("150 tokens are not forgotten at once", 2)
	for range 40 {
		play(30)
	}
	check("after many short ones", 10)
}

// TestReservedNeverParked checks that sessions with reserved memory take turns and never park each other.
func TestReservedNeverParked(t *testing.T) {
	const n = 6
	s := start(t, newFake(64, 16), Options{ExpectTokens: 64, ChunkTokens: 5})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			session, err := s.Open(t.Context(), SessionOptions{Key: Key{Task: fmt.Sprint(i)}, MaxContext: 64})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close(session)
			for turn := range 3 {
				if _, err := s.Generate(t.Context(), session, make([]int32, 9), Params{MaxNew: 12, Temperature: 1, Turn: turn}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if parked := s.Stats().Parked; parked != 0 {
		t.Errorf("sessions were parked %d times, want 0: their memory was reserved", parked)
	}
}
