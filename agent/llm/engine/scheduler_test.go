package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// TestRepliesDoNotDependOnBatches checks that replies depend only on a
// session's input, not on batches, prefill chunks or parking.
func TestRepliesDoNotDependOnBatches(t *testing.T) {
	tests := []struct {
		name     string
		capacity int
		block    int
		options  Options
		parks    bool
	}{
		{"roomy", 1 << 16, 16, Options{}, false},
		{"one token at a time", 1 << 16, 1, Options{ChunkTokens: 1, PrefillTokens: 1}, false},
		{"small chunks", 1 << 16, 16, Options{ChunkTokens: 5, PrefillTokens: 13}, false},
		{"tight memory", 480, 16, Options{ChunkTokens: 7}, true},
		{"room for one session", 160, 16, Options{}, true},
		{"odd blocks", 460, 7, Options{ChunkTokens: 9, PrefillTokens: 20}, true},
		{"deterministic", 1 << 16, 16, Options{Deterministic: true, ChunkTokens: 11}, false},
		{"deterministic, tight", 300, 16, Options{Deterministic: true, ChunkTokens: 11}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(tt.capacity, tt.block)
			s := start(t, f, tt.options)
			const n = 40
			sessions := make([]*Session, n)
			if tt.options.Deterministic || tt.parks { // open all sessions before the first one can end
				for i := range n {
					sc := makeScript(i)
					sessions[i] = mustOpen(t, s, SessionOptions{Key: sc.key, MaxContext: sc.limit})
				}
			}
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					sc := makeScript(i)
					session := sessions[i]
					if session == nil {
						var err error
						if session, err = s.Open(t.Context(), SessionOptions{Key: sc.key, MaxContext: sc.limit}); err != nil {
							t.Error(err)
							return
						}
					}
					defer s.Close(session)
					got, err := sc.play(t.Context(), s, session, func(turn int) {
						for range (i*turn + i) % 5 {
							runtime.Gosched()
						}
					})
					if err != nil {
						t.Error(err)
					}
					if diff := cmp.Diff(sc.want(), got); diff != "" {
						t.Errorf("session %d (-want +got):\n%s", i, diff)
					}
				})
			}
			wg.Wait()
			st := s.Stats()
			if st.Open != 0 || st.Active != 0 {
				t.Errorf("%d sessions open and %d active after all were closed, want 0", st.Open, st.Active)
			}
			if got := st.Parked > 0; got != tt.parks {
				t.Errorf("sessions were parked %d times, want parking: %v", st.Parked, tt.parks)
			}
		})
	}
}

// TestDeterministicBatches checks that with Deterministic the batches are
// equal for every order in which the goroutines run.
func TestDeterministicBatches(t *testing.T) {
	for _, capacity := range []int{1 << 16, 300} {
		t.Run(fmt.Sprint(capacity), func(t *testing.T) {
			var first []string
			for run := range 4 {
				f := newFake(capacity, 16)
				s := start(t, f, Options{Deterministic: true, ChunkTokens: 8, PrefillTokens: 24})
				const n = 12
				sessions := make([]*Session, n)
				for i := range sessions {
					sc := makeScript(i)
					sessions[i] = mustOpen(t, s, SessionOptions{Key: sc.key, MaxContext: sc.limit})
				}
				var wg sync.WaitGroup
				for i, session := range sessions {
					rng := rand.New(rand.NewPCG(uint64(run), uint64(i)))
					wg.Go(func() {
						defer s.Close(session)
						_, err := makeScript(i).play(t.Context(), s, session, func(int) {
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
		})
	}
}

// stepper observes and releases the steps of a fakeBackend one by one.
type stepper struct {
	entered chan []Work
	release chan error
}

func newStepper(f *fakeBackend) *stepper {
	st := &stepper{entered: make(chan []Work), release: make(chan error)}
	f.before = func(batch []Work) error {
		st.entered <- batch
		return <-st.release
	}
	return st
}

// next releases the waiting step and returns the following one.
func (st *stepper) next() []Work {
	st.release <- nil
	return <-st.entered
}

func (st *stepper) off(f *fakeBackend) { f.before = nil; st.release <- nil }

type result struct {
	reply Reply
	err   error
}

func generate(ctx context.Context, s *Scheduler, session *Session, ids []int32, p Params) <-chan result {
	c := make(chan result, 1)
	go func() {
		r, err := s.Generate(ctx, session, ids, p)
		c <- result{r, err}
	}()
	return c
}

func TestContinuousBatching(t *testing.T) {
	f := newFake(4096, 16)
	st := newStepper(f)
	s := start(t, f, Options{ChunkTokens: 4})
	long := mustOpen(t, s, SessionOptions{Key: Key{Task: "long"}})
	short := mustOpen(t, s, SessionOptions{Key: Key{Task: "short"}})

	a := generate(t.Context(), s, long, []int32{1}, Params{MaxNew: 12, Temperature: 1})
	if got := len(<-st.entered); got != 1 {
		t.Fatalf("%d rows in the first step, want 1", got)
	}
	// A call that arrives during a step joins the next step, which has a
	// prefill chunk and the decode step.
	b := generate(t.Context(), s, short, []int32{1, 2, 3, 4, 5}, Params{MaxNew: 2, Temperature: 1})
	for s.Stats().Active < 2 {
		runtime.Gosched()
	}
	batch := st.next()
	if len(batch) != 2 || len(batch[0].Tokens) != 1 || len(batch[1].Tokens) != 4 || batch[1].Sample {
		t.Fatalf("second step is %+v, want a decode step and a chunk of 4 without a sample", batch)
	}
	batch = st.next()
	if len(batch) != 2 || len(batch[1].Tokens) != 1 || !batch[1].Sample {
		t.Fatalf("third step is %+v, want the last prompt token with a sample", batch)
	}
	if batch = st.next(); len(batch) != 2 {
		t.Fatalf("fourth step has %d rows, want 2", len(batch))
	}
	// The short reply has ended: the batch excludes it and Generate has returned.
	if batch = st.next(); len(batch) != 1 {
		t.Fatalf("fifth step has %d rows, want 1", len(batch))
	}
	if r := <-b; r.err != nil || r.reply.Stop != StopLength || len(r.reply.IDs) != 2 {
		t.Errorf("short reply: got %+v", r)
	}
	st.off(f)
	if r := <-a; r.err != nil || len(r.reply.IDs) != 12 {
		t.Errorf("long reply: got %+v", r)
	}
}

func TestCancelFreesTheSession(t *testing.T) {
	f := newFake(4096, 16)
	st := newStepper(f)
	s := start(t, f, Options{})
	gone := mustOpen(t, s, SessionOptions{Key: Key{Task: "gone"}})
	stays := mustOpen(t, s, SessionOptions{Key: Key{Task: "stays"}})
	ctx, cancel := context.WithCancel(t.Context())
	a := generate(ctx, s, gone, []int32{1, 2}, Params{MaxNew: 100, Temperature: 1})
	<-st.entered
	b := generate(t.Context(), s, stays, []int32{1, 2}, Params{MaxNew: 3, Temperature: 1})
	for s.Stats().Active < 2 {
		runtime.Gosched()
	}
	cancel()
	if r := <-a; !errors.Is(r.err, context.Canceled) { // the step is still in flight
		t.Fatalf("got %v, want context.Canceled", r.err)
	}
	if batch := st.next(); len(batch) != 1 {
		t.Fatalf("%d rows after the cancellation, want 1", len(batch))
	}
	st.off(f)
	if r := <-b; r.err != nil || len(r.reply.IDs) != 3 {
		t.Fatalf("reply of the other session: got %+v", r)
	}
	if _, err := s.Generate(t.Context(), gone, []int32{1}, Params{MaxNew: 1, Temperature: 1}); !errors.Is(err, ErrSessionBroken) {
		t.Errorf("got %v, want ErrSessionBroken", err)
	}
	if err := s.Exclusive(t.Context(), func() error { // Exclusive starts after the drop
		if n := len(f.kv); n != 1 {
			t.Errorf("%d sequences in the backend, want 1", n)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestBackendFaults(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name  string
		fault func([]Work) error
		want  string
	}{
		{"error", func([]Work) error { return boom }, "engine step 1 (1 sequences): boom"},
		{"panic", func([]Work) error { panic("index out of range") }, "engine step 1 (1 sequences): the backend panicked: index out of range"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(4096, 16)
			f.before = tt.fault
			s := start(t, f, Options{})
			session := mustOpen(t, s, SessionOptions{})
			_, err := s.Generate(t.Context(), session, []int32{1}, Params{MaxNew: 4, Temperature: 1})
			var be *BackendError
			if !errors.As(err, &be) || err.Error() != tt.want {
				t.Fatalf("got %v, want %s", err, tt.want)
			}
			if _, err := s.Generate(t.Context(), session, []int32{1}, Params{MaxNew: 4, Temperature: 1}); !errors.Is(err, ErrSessionBroken) {
				t.Errorf("Generate after the failure: got error %v, want ErrSessionBroken", err)
			}
			f.before = nil
			next := mustOpen(t, s, SessionOptions{})
			if r, err := s.Generate(t.Context(), next, []int32{1}, Params{MaxNew: 4, Temperature: 1}); err != nil || len(r.IDs) != 4 {
				t.Errorf("a new session after the failure: reply %+v, error %v", r, err)
			}
		})
	}
}

type shortBackend struct{ *fakeBackend }

func (shortBackend) Step(context.Context, []Work) ([]Sampled, error) { return nil, nil }

func TestBackendResultOfWrongLength(t *testing.T) {
	s, err := New(shortBackend{newFake(64, 16)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	session := mustOpen(t, s, SessionOptions{})
	_, err = s.Generate(t.Context(), session, []int32{1}, Params{MaxNew: 1, Temperature: 1})
	if err == nil || !strings.Contains(err.Error(), "0 results for 1 sequences") {
		t.Errorf("Generate: error %v, want one about the number of results", err)
	}
}

func TestRefusals(t *testing.T) {
	f := newFake(64, 16)
	s := start(t, f, Options{})
	if _, err := s.Open(t.Context(), SessionOptions{MaxContext: 65}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Open of 65 tokens in a budget of 64: got error %v, want ErrTooLarge", err)
	}
	if _, err := New(newFake(15, 16), Options{}); err == nil {
		t.Error("New accepts a budget of less than a block")
	}
	if _, err := New(f, Options{ChunkTokens: -1, PrefillTokens: -2, ExpectTokens: -3}); err == nil ||
		strings.Count(err.Error(), "want at least 1") != 2 || !strings.Contains(err.Error(), "expected tokens is -3") {
		t.Errorf("New with invalid options: error %v, want one that names every option", err)
	}
	session := mustOpen(t, s, SessionOptions{})
	ok := Params{MaxNew: 1, Temperature: 1}
	for name, change := range map[string]func(*Params){
		"max new tokens is 0":  func(p *Params) { p.MaxNew = 0 },
		"temperature is 0":     func(p *Params) { p.Temperature = 0 },
		"top-p is 1.5":         func(p *Params) { p.TopP = 1.5 },
		"top-k is -1":          func(p *Params) { p.TopK = -1 },
		"Each, which is nil":   func(p *Params) { p.Top = 1 },
		"top is -1":            func(p *Params) { p.Top = -1 },
		"need an engine with":  func(p *Params) { p.StopStrings = []string{"x"} },
		"an empty stop string": func(p *Params) { p.StopStrings = []string{""} },
	} {
		p := ok
		change(&p)
		if _, err := s.Generate(t.Context(), session, []int32{1}, p); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
	if _, err := s.Generate(t.Context(), session, nil, ok); err == nil {
		t.Error("Generate accepts an empty context")
	}
	if _, err := s.Generate(t.Context(), NewSession(SessionOptions{}, nil), []int32{1}, ok); err == nil {
		t.Error("Generate accepts a session of another engine")
	}
	s.Close(session)
	s.Close(session)
	if _, err := s.Generate(t.Context(), session, []int32{1}, ok); !errors.Is(err, ErrSessionClosed) {
		t.Errorf("got %v, want ErrSessionClosed", err)
	}
	s.Shutdown()
	if _, err := s.Open(t.Context(), SessionOptions{}); !errors.Is(err, ErrShutdown) {
		t.Errorf("got %v, want ErrShutdown", err)
	}
}

func TestOpenWaitsForRoom(t *testing.T) {
	f := newFake(32, 16)
	s := start(t, f, Options{})
	full := mustOpen(t, s, SessionOptions{})
	if _, err := s.Generate(t.Context(), full, make([]int32, 20), Params{MaxNew: 1, Temperature: 1}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan error)
	go func() {
		_, err := s.Open(ctx, SessionOptions{})
		cancelled <- err
	}()
	opened := make(chan error)
	go func() {
		_, err := s.Open(t.Context(), SessionOptions{})
		opened <- err
	}()
	waiting := func() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.opening) }
	for waiting() < 2 {
		runtime.Gosched()
	}
	cancel()
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	s.Close(full)
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func TestShutdownEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(32, 16)
		st := newStepper(f)
		s := start(t, f, Options{})
		busy := mustOpen(t, s, SessionOptions{})
		a := generate(t.Context(), s, busy, make([]int32, 20), Params{MaxNew: 9, Temperature: 1})
		<-st.entered
		opened, exclusive, stopped := make(chan error, 1), make(chan error, 1), make(chan struct{})
		go func() {
			_, err := s.Open(t.Context(), SessionOptions{})
			opened <- err
		}()
		go func() {
			exclusive <- s.Exclusive(t.Context(), func() error { t.Error("Exclusive ran its function"); return nil })
		}()
		synctest.Wait() // Open and Exclusive wait
		go func() { s.Shutdown(); close(stopped) }()
		synctest.Wait()
		st.release <- nil
		<-stopped
		if r := <-a; !errors.Is(r.err, ErrShutdown) {
			t.Errorf("Generate: %v, want ErrShutdown", r.err)
		}
		if err := <-opened; !errors.Is(err, ErrShutdown) {
			t.Errorf("Open: %v, want ErrShutdown", err)
		}
		if err := <-exclusive; !errors.Is(err, ErrShutdown) {
			t.Errorf("Exclusive: %v, want ErrShutdown", err)
		}
	})
}
