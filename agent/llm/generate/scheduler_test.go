package generate

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/torch"
)

// converse plays two turns in a new session and returns all sampled tokens.
func converse(ctx context.Context, e engine.Engine, sample int) (out []int32, logps []float32, err error) {
	s, err := e.Open(ctx, engine.SessionOptions{Key: engine.Key{Seed: 3, Task: "maze", Sample: sample}, MaxContext: 200})
	if err != nil {
		return nil, nil, err
	}
	defer e.Close(s)
	for turn, n := range []int{37, 5} {
		r, err := e.Generate(ctx, s, ids(n, sample%3), engine.Params{MaxNew: 20, Temperature: 1, Turn: turn})
		if err != nil {
			return nil, nil, err
		}
		out, logps = append(out, r.IDs...), append(logps, r.LogProbs...)
	}
	return out, logps, nil
}

// converseAll runs n conversations at once.
func converseAll(t *testing.T, e engine.Engine, n int) (out [][]int32, logps [][]float32) {
	t.Helper()
	out, logps = make([][]int32, n), make([][]float32, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { out[i], logps[i], errs[i] = converse(context.Background(), e, i) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return out, logps
}

func newScheduler(t *testing.T, b engine.Backend, o engine.Options) *engine.Scheduler {
	t.Helper()
	s, err := engine.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchedulerOverBackend checks that conversations have the same samples when they
// run one by one, all at once, or with a cache so small that sessions are parked.
func TestSchedulerOverBackend(t *testing.T) {
	m := openModel(t, torch.Float32)
	const n = 12
	run := func(kv int, o engine.Options, together bool) (out [][]int32, logps [][]float32) {
		b, err := New(context.Background(), m, Options{KVTokens: kv, BlockSize: 16})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		s := newScheduler(t, b, o)
		if together {
			out, logps = converseAll(t, s, n)
		} else {
			for i := range n {
				o, l, err := converse(context.Background(), s, i)
				if err != nil {
					t.Fatal(err)
				}
				out, logps = append(out, o), append(logps, l)
			}
		}
		if kv < 1000 && together && s.Stats().Parked == 0 {
			t.Error("no session was parked with the small cache")
		}
		s.Shutdown()
		checkNothingInUse(t, b)
		return out, logps
	}
	want, wantLP := run(4096, engine.Options{}, false)
	for _, tt := range []struct {
		name string
		kv   int
		o    engine.Options
	}{
		{"together", 4096, engine.Options{}},
		{"small chunks", 4096, engine.Options{ChunkTokens: 5, PrefillTokens: 9}},
		{"parked", 224, engine.Options{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, gotLP := run(tt.kv, tt.o, true)
			for i := range want {
				if !equal(want[i], got[i]) {
					t.Errorf("conversation %d: got tokens %v, want %v as one by one", i, got[i], want[i])
					continue
				}
				for j := range want[i] {
					if d := math.Abs(float64(wantLP[i][j] - gotLP[i][j])); !(d <= tolerance) {
						t.Errorf("conversation %d: log-prob %d differs by %.2g", i, j, d)
					}
				}
			}
		})
	}
}

// TestDeterministic checks that two equal runs give the same bits.
func TestDeterministic(t *testing.T) {
	m := openModel(t, torch.Float32)
	const n = 6
	run := func() (out [][]int32, logps [][]float32) {
		b, err := New(context.Background(), m, Options{KVTokens: 2048, BlockSize: 16})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		s := newScheduler(t, b, engine.Options{Deterministic: true})
		defer s.Shutdown()
		ctx := context.Background()
		var sessions []*engine.Session
		for i := range n {
			session, err := s.Open(ctx, engine.SessionOptions{Key: engine.Key{Sample: i}, MaxContext: 200})
			if err != nil {
				t.Fatal(err)
			}
			sessions = append(sessions, session)
		}
		out, logps = make([][]int32, n), make([][]float32, n)
		var wg sync.WaitGroup
		for i, session := range sessions {
			wg.Go(func() {
				defer s.Close(session)
				for turn := range 2 {
					r, err := s.Generate(ctx, session, ids(5+3*i, i), engine.Params{MaxNew: 10 + i, Temperature: 1, Turn: turn})
					if err != nil {
						t.Error(err)
						return
					}
					out[i], logps[i] = append(out[i], r.IDs...), append(logps[i], r.LogProbs...)
				}
			})
		}
		wg.Wait()
		return out, logps
	}
	a, aLP := run()
	for range 2 {
		b, bLP := run()
		for i := range a {
			if !equal(a[i], b[i]) {
				t.Fatalf("session %d sampled %v in the first run and %v in the second", i, a[i], b[i])
			}
			for j := range aLP[i] {
				if aLP[i][j] != bLP[i][j] {
					t.Errorf("session %d: log-prob %d is %v in the first run and %v in the second", i, j, aLP[i][j], bLP[i][j])
				}
			}
		}
	}
}

// TestCancelFrees checks that cancelled calls free their sequences and blocks.
func TestCancelFrees(t *testing.T) {
	m := openModel(t, torch.Float32)
	b := newBackend(t, m, Options{KVTokens: 2048, BlockSize: 16})
	s := newScheduler(t, b, engine.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 4 {
		session, err := s.Open(ctx, engine.SessionOptions{Key: engine.Key{Sample: i}})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer s.Close(session)
			_, err := s.Generate(ctx, session, ids(30, i), engine.Params{MaxNew: 400, Temperature: 1})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Generate with a cancelled context: got error %v, want context.Canceled", err)
			}
		})
	}
	for s.Stats().SampledTokens < 8 { // until the calls are in progress
	}
	cancel()
	wg.Wait()
	// Check before Shutdown, which frees all sequences. Exclusive waits for pending
	// drops.
	if err := s.Exclusive(context.Background(), func() error {
		checkNothingInUse(t, b)
		return nil
	}); err != nil {
		t.Error(err)
	}
	s.Shutdown()
}

// TestWeightUpdate checks a change of weights in the middle of a session: later
// tokens equal those of a new session with the new weights.
func TestWeightUpdate(t *testing.T) {
	ctx := context.Background()
	m := openModel(t, torch.Float32)
	change := func() {
		err := torch.Run(ctx, m.Thread(), func(s *torch.Scope) error {
			s.NoGrad(func() {
				for _, p := range m.Params() {
					p.Tensor.Copy_(p.Tensor.MulScalar(1.05))
				}
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	b := newBackend(t, m, Options{KVTokens: 1024, BlockSize: 16})
	b.SetVersion(1)
	s := newScheduler(t, b, engine.Options{})
	defer s.Shutdown()
	session, err := s.Open(ctx, engine.SessionOptions{Key: engine.Key{Seed: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(session)
	context1 := ids(25, 1)
	r1, err := s.Generate(ctx, session, context1, engine.Params{MaxNew: 10, Temperature: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Exclusive(ctx, func() error { change(); b.SetVersion(2); return nil }); err != nil {
		t.Fatal(err)
	}
	more := ids(4, 9)
	r2, err := s.Generate(ctx, session, more, engine.Params{MaxNew: 10, Temperature: 1, Turn: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r1.Version != 1 || r2.Version != 2 {
		t.Errorf("versions are %d and %d, want 1 and 2", r1.Version, r2.Version)
	}
	whole := append(append(append([]int32{}, context1...), r1.IDs...), more...)
	want, err := m.LogProbs(ctx, 1, append(whole, r2.IDs...))
	if err != nil {
		t.Fatal(err)
	}
	for i, lp := range want[0][len(whole)-1:] {
		if d := math.Abs(float64(lp - r2.LogProbs[i])); !(d <= tolerance) {
			t.Errorf("token %d after the update: log-prob is off by %.2g", i, d)
		}
	}
}
