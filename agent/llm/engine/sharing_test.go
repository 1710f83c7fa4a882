package engine

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// prefixTokens returns n tokens that are a common prefix of several scripts.
func prefixTokens(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((i*i + 5) % fakeVocab)
	}
	return ids
}

// TestGroupSharesItsPrompt checks that the samples of a task compute their
// common prompt once and give the same replies as without sharing.
func TestGroupSharesItsPrompt(t *testing.T) {
	const group, prompt, block = 8, 100, 16
	for _, tt := range []struct {
		name    string
		options Options
		shares  bool
	}{
		{"shared", Options{ChunkTokens: 24, PrefillTokens: 48}, true},
		{"not shared", Options{ChunkTokens: 24, PrefillTokens: 48, NoSharing: true}, false},
		{"deterministic", Options{ChunkTokens: 24, PrefillTokens: 48, Deterministic: true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(1<<16, block)
			s := start(t, f, tt.options)
			var scripts []script
			var sessions []*Session
			for i := range group {
				sc := makeScript(i)
				sc.key = Key{Seed: 7, Task: "maze_0", Sample: i}
				sc.limit = 400
				sc.turns[0] = prefixTokens(prompt)
				scripts, sessions = append(scripts, sc), append(sessions, mustOpen(t, s, SessionOptions{Key: sc.key, MaxContext: sc.limit}))
			}
			var wg sync.WaitGroup
			for i, sc := range scripts {
				// Sessions stay open, so that later sessions can share their prompt. In
				// deterministic mode an open session without a call stops the others.
				if !tt.options.Deterministic {
					defer s.Close(sessions[i])
				}
				wg.Go(func() {
					if tt.options.Deterministic {
						defer s.Close(sessions[i])
					}
					got, err := sc.play(t.Context(), s, sessions[i], nil)
					if err != nil {
						t.Error(err)
					}
					if diff := cmp.Diff(sc.want(), got); diff != "" {
						t.Errorf("sample %d: %s", i, diff)
					}
				})
			}
			wg.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			want := 0
			if tt.shares {
				want = (group - 1) * (prompt - 1)
			}
			// f.kept may exceed want, because replies can begin with equal tokens by chance.
			if f.kept < want || want == 0 && f.kept > 0 {
				t.Errorf("the backend reused %d tokens, want %d", f.kept, want)
			}
			if n := s.Stats().SharedTokens; n != int64(f.kept) {
				t.Errorf("Stats.SharedTokens is %d, want %d as in the backend", n, f.kept)
			}
		})
	}
}

// TestRestartKeepsTheBeginning checks that a restarted session keeps only the common prefix of its two contexts.
func TestRestartKeepsTheBeginning(t *testing.T) {
	const block = 16
	f := newFake(1<<12, block)
	s := start(t, f, Options{})
	sc := makeScript(1)
	session := mustOpen(t, s, SessionOptions{Key: sc.key, MaxContext: 200})
	for turn, kept := range []int{0, 50, 50, 47, 15} {
		own := []int32{int32(turn), 1, 2, int32(turn)}
		ids := append(prefixTokens([]int{50, 63, 50, 47, 15}[turn]), own...)
		before := f.kept
		p := sc.params
		p.Turn = turn
		if turn > 0 {
			if _, err := Restart(t.Context(), s, session); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.Generate(t.Context(), session, ids, p)
		if err != nil {
			t.Fatal(err)
		}
		fresh := script{key: sc.key, limit: 200, turns: [][]int32{ids}, params: p}
		want := make([]int32, 0, len(got.IDs))
		context := ids
		for len(want) < len(got.IDs) {
			x := fakeSample(context, Draw{Seed: fresh.key.Seed, Task: TaskHash(fresh.key.Task), Sample: fresh.key.Sample, Turn: turn, Position: len(context)})
			context, want = append(context, x.Token), append(want, x.Token)
		}
		if diff := cmp.Diff(want, got.IDs); diff != "" {
			t.Errorf("turn %d: %s", turn, diff)
		}
		if n := f.kept - before; n != kept {
			t.Errorf("turn %d reused %d tokens, want %d", turn, n, kept)
		}
	}
	s.Close(session)
}

// TestSharingUnderPressure checks that sharing changes no reply while memory
// runs out, weights change and calls are cancelled.
func TestSharingUnderPressure(t *testing.T) {
	const n, rounds = 16, 4
	for _, capacity := range []int{20 * 16, 40 * 16, 1 << 14} {
		f := newFake(capacity, 16)
		s := start(t, f, Options{ChunkTokens: 20, PrefillTokens: 40})
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(capacity), uint64(i)))
				for round := range rounds {
					sc := makeScript(i)
					sc.limit = 250
					sc.turns[0] = append(prefixTokens(20*(i%5)), sc.turns[0]...)
					session, err := s.Open(t.Context(), SessionOptions{Key: sc.key, MaxContext: sc.limit})
					if err != nil {
						t.Error(err)
						return
					}
					ctx, cancel := context.WithCancel(t.Context())
					if (i+round)%7 == 0 { // cancelled at a random time
						patience := r.IntN(50)
						go func() {
							for range patience {
								runtime.Gosched()
							}
							cancel()
						}()
						_, _ = sc.play(ctx, s, session, nil)
						s.Close(session)
						cancel()
						continue
					}
					got, err := sc.play(ctx, s, session, func(int) {
						for range r.IntN(4) {
							runtime.Gosched()
						}
					})
					cancel()
					if err != nil {
						t.Error(err)
					} else if diff := cmp.Diff(sc.want(), got); diff != "" {
						t.Errorf("session %d: %s", i, diff)
					}
					if round%2 == 1 { // one more turn in a new context, with another shared prefix
						restarted := sc
						restarted.turns = [][]int32{append(prefixTokens(20*(i%5)), int32(i))}
						if session, err = Restart(t.Context(), s, session); err != nil {
							t.Error(err)
							return
						}
						got, err := restarted.play(t.Context(), s, session, nil)
						if err != nil {
							t.Error(err)
						} else if diff := cmp.Diff(restarted.want(), got); diff != "" {
							t.Errorf("session %d, restarted: %s", i, diff)
						}
					}
					s.Close(session)
				}
			})
		}
		wg.Wait()
		if capacity == 1<<14 {
			f.mu.Lock()
			if f.kept == 0 {
				t.Error("no prefix was shared")
			}
			f.mu.Unlock()
		}
	}
}

// TestSharingEndsWithNewWeights checks that a change of the weights invalidates shared prefixes.
func TestSharingEndsWithNewWeights(t *testing.T) {
	f := newFake(1<<12, 16)
	s := start(t, f, Options{})
	sc := makeScript(0)
	session := mustOpen(t, s, SessionOptions{Key: sc.key, MaxContext: 200})
	other := mustOpen(t, s, SessionOptions{Key: Key{Seed: 7, Task: "maze_0", Sample: 9}, MaxContext: 200})
	if _, err := s.Generate(t.Context(), session, prefixTokens(64), sc.params); err != nil {
		t.Fatal(err)
	}
	if err := s.Exclusive(t.Context(), func() error { f.version.Add(1); return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := Restart(t.Context(), s, session); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Session{session, other} { // the second session may share the new KV of the first
		if _, err := s.Generate(t.Context(), x, prefixTokens(64), sc.params); err != nil {
			t.Fatal(err)
		}
	}
	s.Close(session)
	s.Close(other)
}

// TestParkedSource fills a batch in which a row parks the sequence that an older row copies, and the parked sequence begins again.
func TestParkedSource(t *testing.T) {
	context := func(common, own int) []int32 {
		ids := prefixTokens(common)
		for i := range own {
			ids = append(ids, int32((own+i)%fakeVocab))
		}
		return ids
	}
	s := &Scheduler{options: Options{ChunkTokens: 1000, PrefillTokens: 1000}, block: 16, capacity: 60}
	open := func(ids []int32) *sequence {
		q := &sequence{id: SeqID(len(s.open) + 1), session: &Session{}, limit: 1000, ids: ids, call: &call{}}
		s.open = append(s.open, q)
		return q
	}
	copies, other, source := open(context(47, 300)), open(context(0, 400)), open(context(47, 53))
	source.blocks, source.cached, s.used = 30, 47, 30 // of a longer context before a restart
	batch, work := s.fill(s.open, 0, func(*sequence) bool { return true })
	if len(batch) != 3 || batch[0] != copies || batch[1] != other || batch[2] != source || s.stats.Parked != 1 {
		t.Fatalf("the batch has %d rows and %d sequences were parked, want all 3 rows and 1", len(batch), s.stats.Parked)
	}
	if w := work[0]; w.From != 0 || w.Pos != 0 {
		t.Errorf("the first row begins with %d tokens of sequence %d, which has none", w.Pos, w.From)
	}
}
