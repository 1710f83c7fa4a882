package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeBackend is a pseudo language model. The next token is a hash of the whole
// context and the draw's key, so wrong input from the scheduler changes all later
// tokens. It also checks the guarantees that Backend documents.
type fakeBackend struct {
	capacity, block int
	version         atomic.Int64
	before          func(batch []Work) error // called in Step; may block or fail

	inStep atomic.Bool
	mu     sync.Mutex
	kv     map[SeqID][]fakeKV
	faults []string
	shapes []string // one line per batch
	run    int      // number of computed tokens
	kept   int      // number of tokens reused from the previous context or from another context

	released bool  // between Release and the next Reserve or Step
	releases int   // number of times that memory was freed
	full     error // error of Reserve; nil: none
}

type fakeKV struct {
	token   int32
	version int64
}

const fakeVocab = 64

func newFake(capacity, block int) *fakeBackend {
	return &fakeBackend{capacity: capacity, block: block, kv: map[SeqID][]fakeKV{}}
}

func (f *fakeBackend) Capacity() int  { return f.capacity }
func (f *fakeBackend) BlockSize() int { return f.block }
func (f *fakeBackend) Version() int64 { return f.version.Load() }

func (f *fakeBackend) faultf(format string, a ...any) {
	f.faults = append(f.faults, fmt.Sprintf(format, a...))
}

func (f *fakeBackend) Drop(seq SeqID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inStep.Load() {
		f.faultf("drop of %d during a step", seq)
	}
	delete(f.kv, seq)
}

func (f *fakeBackend) Release(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inStep.Load() || len(f.kv) > 0 {
		f.faultf("release during a step, or with %d sequences", len(f.kv))
	}
	if !f.released {
		f.released = true
		f.releases++
	}
	return nil
}

func (f *fakeBackend) Reserve(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.released && f.full != nil {
		return f.full
	}
	f.released = false
	return nil
}

func (f *fakeBackend) Step(ctx context.Context, batch []Work) ([]Sampled, error) {
	if !f.inStep.CompareAndSwap(false, true) {
		f.faultf("two steps at once")
	}
	defer f.inStep.Store(false)
	if err := f.Reserve(ctx); err != nil {
		return nil, err
	}
	if f.before != nil {
		if err := f.before(batch); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Sampled, len(batch))
	shape := ""
	seen := map[SeqID]bool{}
	for i, w := range batch {
		kv := f.kv[w.Seq]
		if w.From != 0 {
			if kv != nil || len(f.kv[w.From]) < w.Pos {
				f.faultf("sequence %d has %d cached tokens and begins with %d tokens of sequence %d, which has %d", w.Seq, len(kv), w.Pos, w.From, len(f.kv[w.From]))
			}
			kv = slices.Clone(f.kv[w.From])
		}
		if w.Pos < len(kv) {
			f.kept += w.Pos
			kv = slices.Clone(kv[:w.Pos])
		}
		if w.Pos != len(kv) || len(w.Tokens) == 0 || seen[w.Seq] {
			f.faultf("sequence %d: pos %d with %d cached, %d new, seen %v", w.Seq, w.Pos, len(kv), len(w.Tokens), seen[w.Seq])
		}
		seen[w.Seq] = true
		f.run += len(w.Tokens)
		for _, t := range w.Tokens {
			kv = append(kv, fakeKV{t, f.version.Load()})
		}
		f.kv[w.Seq] = kv
		shape += fmt.Sprintf("%d/%d:%d+%d%v ", w.Draw.Task%97, w.Draw.Sample, w.Pos, len(w.Tokens), w.Sample)
		if !w.Sample {
			continue
		}
		ids := make([]int32, len(kv))
		for j, e := range kv {
			ids[j] = e.token
			if e.version != f.version.Load() {
				f.faultf("sequence %d samples over stale KV", w.Seq)
			}
		}
		if w.Draw.Position != len(ids) {
			f.faultf("sequence %d: draw position %d at length %d", w.Seq, w.Draw.Position, len(ids))
		}
		out[i] = fakeSample(ids, w.Draw)
		for j := range w.Top {
			out[i].Top = append(out[i].Top, Candidate{ID: (out[i].Token + int32(j)) % fakeVocab, LogProb: out[i].LogProb - float32(j)})
		}
	}
	blocks := 0
	for _, kv := range f.kv {
		blocks += (len(kv) + f.block - 1) / f.block
	}
	if blocks > f.capacity/f.block {
		f.faultf("%d blocks in use of %d", blocks, f.capacity/f.block)
	}
	f.shapes = append(f.shapes, shape)
	return out, nil
}

// fakeSample draws the token that follows ids.
func fakeSample(ids []int32, d Draw) Sampled {
	h := d.Seed ^ d.Task
	mix := func(x uint64) {
		h ^= x
		h *= 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	for _, id := range ids {
		mix(uint64(id) + 1)
	}
	mix(uint64(d.Sample))
	mix(uint64(d.Turn) << 20)
	mix(uint64(d.Position) << 40)
	return Sampled{Token: int32(h % fakeVocab), LogProb: -float32(h%1000) / 100}
}

// check fails the test for every broken guarantee and for leaked memory.
func (f *fakeBackend) check(t *testing.T, s *Scheduler) {
	t.Helper()
	s.Shutdown()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, fault := range f.faults {
		if i == 5 {
			break
		}
		t.Error(fault)
	}
	if len(f.kv) != 0 {
		t.Errorf("the backend has %d sequences after the shutdown, want none", len(f.kv))
	}
	if s.used != 0 {
		t.Errorf("%d blocks are reserved after the shutdown, want none", s.used)
	}
}

func start(t *testing.T, f *fakeBackend, o Options) *Scheduler {
	t.Helper()
	s, err := New(f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.check(t, s) })
	return s
}

func mustOpen(t *testing.T, s *Scheduler, o SessionOptions) *Session {
	t.Helper()
	session, err := s.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// script is the input of one session, turn by turn.
type script struct {
	key    Key
	limit  int
	turns  [][]int32
	params Params
}

func makeScript(n int) script {
	s := script{
		key:    Key{Seed: 7, Task: fmt.Sprintf("maze_%d", n/3), Sample: n % 3},
		limit:  100 + 13*(n%5),
		params: Params{MaxNew: 5 + n%17, Temperature: 1, StopTokens: []int32{3}},
	}
	for turn := range 4 {
		ids := make([]int32, 1+(n*7+turn*11)%29)
		for i := range ids {
			ids[i] = int32((n*31 + turn*17 + i) % fakeVocab)
		}
		s.turns = append(s.turns, ids)
	}
	return s
}

// want returns the replies to the script, computed without a scheduler.
func (s script) want() []Reply {
	var ids []int32
	var replies []Reply
	for turn, more := range s.turns {
		if len(ids)+len(more) >= s.limit {
			return append(replies, Reply{Stop: StopContext})
		}
		ids = append(ids, more...)
		r := Reply{}
		for r.Stop == "" {
			x := fakeSample(ids, Draw{Seed: s.key.Seed, Task: TaskHash(s.key.Task), Sample: s.key.Sample, Turn: turn, Position: len(ids)})
			ids = append(ids, x.Token)
			r.IDs = append(r.IDs, x.Token)
			r.LogProbs = append(r.LogProbs, x.LogProb)
			switch {
			case x.Token == 3:
				r.Stop = StopEOS
			case len(ids) >= s.limit:
				r.Stop = StopContext
			case len(r.IDs) >= s.params.MaxNew:
				r.Stop = StopLength
			}
		}
		replies = append(replies, r)
	}
	return replies
}

// play runs the script. It calls the function in the argument between, if not nil, before every turn.
func (s script) play(ctx context.Context, e Engine, session *Session, between func(turn int)) ([]Reply, error) {
	var replies []Reply
	for turn, ids := range s.turns {
		if between != nil {
			between(turn)
		}
		p := s.params
		p.Turn = turn
		var seen Reply // the reply as Each received it
		p.Each = func(t Token) {
			seen.IDs, seen.LogProbs = append(seen.IDs, t.ID), append(seen.LogProbs, t.LogProb)
		}
		r, err := e.Generate(ctx, session, ids, p)
		if err != nil {
			return replies, err
		}
		if !slices.Equal(seen.IDs, r.IDs) || !slices.Equal(seen.LogProbs, r.LogProbs) {
			return replies, fmt.Errorf("turn %d: Each received %v, the reply is %v", turn, seen, r)
		}
		replies = append(replies, r)
		if r.Stop == StopContext && len(r.IDs) == 0 {
			break
		}
	}
	return replies, nil
}
