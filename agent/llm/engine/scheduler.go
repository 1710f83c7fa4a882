package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Scheduler is an Engine over a Backend. One goroutine forms a batch of the next
// work of all sessions, runs it, distributes the sampled tokens and repeats
// (continuous batching): a finished reply leaves the batch at once, and a new
// call joins at the next step.
//
// Memory: a session holds KV for its whole context, in blocks. When the budget
// is used up, sessions between two turns are parked, least recently used
// first: their KV is dropped, and rebuilt from their ids when they resume. If
// that is not enough, the youngest call is parked in the middle of its reply
// and resumed later. It keeps its tokens, and draws are keyed by position, so
// parking does not change the reply. The oldest call is never parked, so every
// reply ends.
type Scheduler struct {
	backend  Backend
	options  Options
	block    int
	capacity int // number of blocks

	cancel context.CancelFunc // cancels the context of Step
	done   chan struct{}      // closed when the goroutine has ended
	wake   chan struct{}      // signals a change of state
	turn   chan struct{}      // has a value while a batch or an Exclusive runs

	mu           sync.Mutex      // guards everything below and every sequence
	open         []*sequence     // open sessions in order of opening
	opening      []*sequence     // sessions whose Open waits for memory, in order of arrival
	drops        []SeqID         // sequences to drop in the backend
	yields       []chan struct{} // of Yield; closed when there is no batch to run
	used         int             // blocks held by all sequences
	expectTokens int             // expected length of a context
	observed     bool            // expectTokens was measured on sessions that have ended
	nextID       SeqID
	nextCall     int64
	shutdown     bool
	stats        Stats
}

var _ Engine = (*Scheduler)(nil)

// New starts a scheduler. Shutdown stops it.
func New(b Backend, o Options) (*Scheduler, error) {
	o, err := o.normalize()
	if err != nil {
		return nil, fmt.Errorf("engine options: %w", err)
	}
	block := b.BlockSize()
	if block < 1 {
		return nil, fmt.Errorf("the backend's block size is %d, want at least 1", block)
	}
	capacity := b.Capacity() / block
	if capacity < 1 {
		return nil, fmt.Errorf("the backend has space for %d tokens, less than one block of %d: raise the KV budget", b.Capacity(), block)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Scheduler{
		backend:      b,
		options:      o,
		block:        block,
		capacity:     capacity,
		expectTokens: o.ExpectTokens,
		cancel:       cancel,
		done:         make(chan struct{}),
		wake:         make(chan struct{}, 1),
		turn:         make(chan struct{}, 1),
	}
	go s.run(ctx)
	return s, nil
}

// Open starts a session; see Engine. A MaxContext of 0 means the whole budget.
// Open waits while the expected lengths of all open sessions, parked ones
// included, fill the budget, so that sessions do not park each other turn by
// turn. A goroutine that opens a session must therefore generate with the
// session or close it before the goroutine waits for another session.
func (s *Scheduler) Open(ctx context.Context, o SessionOptions) (*Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o.MaxContext = cmp.Or(o.MaxContext, s.capacity*s.block)
	if o.MaxContext < 0 {
		return nil, fmt.Errorf("open session: the context limit is %d, want at least 1", o.MaxContext)
	}
	if s.blocks(o.MaxContext) > s.capacity {
		return nil, fmt.Errorf("open session of %d tokens in a budget of %d: %w", o.MaxContext, s.capacity*s.block, ErrTooLarge)
	}
	q := &sequence{limit: o.MaxContext, taskHash: TaskHash(o.Key.Task), admitted: make(chan struct{})}
	q.session = NewSession(o, q)

	s.mu.Lock()
	if s.shutdown {
		s.mu.Unlock()
		return nil, ErrShutdown
	}
	s.opening = append(s.opening, q)
	s.admitOpeners()
	s.mu.Unlock()

	select {
	case <-q.admitted:
	case <-ctx.Done():
	case <-s.done:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.id != 0 {
		return q.session, nil
	}
	s.opening = remove(s.opening, q)
	s.admitOpeners()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	return nil, ErrShutdown
}

// admitOpeners admits waiting Opens while their contexts fit. The caller has locked s.mu.
func (s *Scheduler) admitOpeners() {
	for len(s.opening) > 0 && !s.shutdown {
		if !s.options.Deterministic {
			kept := 0
			for _, q := range s.open {
				kept += s.expected(q)
			}
			if kept+max(1, s.expected(s.opening[0])) > s.capacity {
				return
			}
		}
		q := s.opening[0]
		s.opening = s.opening[1:]
		s.nextID++
		q.id = s.nextID
		s.open = append(s.open, q)
		close(q.admitted)
	}
}

// Generate samples a reply; see Engine. If the context has no space for a new
// token, it returns an empty Reply with StopContext and appends nothing. If ctx
// ends, Generate returns at once and the session leaves the batch at the next
// step. After that, or after a BackendError, the session can only be closed.
func (s *Scheduler) Generate(ctx context.Context, session *Session, ids []int32, p Params) (Reply, error) {
	q, err := s.sequenceOf(session)
	if err != nil {
		return Reply{}, err
	}
	p, err = p.normalize(s.options.NewDecoder != nil)
	if err != nil {
		return Reply{}, fmt.Errorf("generate: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return Reply{}, err
	}
	c := s.newCall(p)

	s.mu.Lock()
	if err = s.checkUsable(q); err == nil && len(q.ids)+len(ids) == 0 {
		err = errors.New("generate: the context is empty; pass at least one id")
	}
	if err != nil {
		s.mu.Unlock()
		return Reply{}, err
	}
	if len(q.ids)+len(ids) >= q.limit {
		s.mu.Unlock()
		return Reply{Stop: StopContext, Version: s.backend.Version()}, nil
	}
	q.ids = append(q.ids, ids...)
	s.reusePrevious(q)
	s.nextCall++
	c.ticket = s.nextCall
	c.start = len(q.ids)
	q.call = c
	s.changed()
	s.mu.Unlock()
	return s.wait(ctx, q, c)
}

// checkUsable returns an error if q cannot begin a call. The caller has locked s.mu.
func (s *Scheduler) checkUsable(q *sequence) error {
	switch {
	case s.shutdown:
		return ErrShutdown
	case q.closed:
		return ErrSessionClosed
	case q.broken:
		return ErrSessionBroken
	case q.call != nil:
		return errors.New("the session has a call in progress; calls for one session must not overlap")
	}
	return nil
}

// Close frees a session. A Generate in progress fails with ErrSessionClosed.
func (s *Scheduler) Close(session *Session) {
	q, err := s.sequenceOf(session)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	if q.call != nil {
		s.finish(q, "", ErrSessionClosed)
	}
	s.evict(q)
	s.open = remove(s.open, q)
	s.observeLength(len(q.ids))
	s.admitOpeners()
	s.changed()
}

// Shutdown fails every call in progress with ErrShutdown, drops all sessions
// and waits for the scheduler's goroutine. It cancels the context of a step in
// flight and waits for the step and for a running Exclusive.
func (s *Scheduler) Shutdown() {
	s.mu.Lock()
	s.shutdown = true
	s.changed()
	s.mu.Unlock()
	s.cancel()
	<-s.done
}

func (s *Scheduler) sequenceOf(session *Session) (*sequence, error) {
	if session != nil {
		if q, ok := session.state.(*sequence); ok {
			return q, nil
		}
	}
	return nil, errors.New("the session was not opened by this engine")
}

// changed notifies the goroutine, which then reads the state again.
func (s *Scheduler) changed() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// blocks returns the number of blocks for n tokens.
func (s *Scheduler) blocks(n int) int { return (n + s.block - 1) / s.block }

func remove(list []*sequence, q *sequence) []*sequence {
	return slices.DeleteFunc(list, func(other *sequence) bool { return other == q })
}

// Stats has counters since the start of the scheduler, and the gauges Open and
// Active.
type Stats struct {
	Steps         int64 // number of batches
	Rows          int64 // number of sequences, summed over all batches
	PrefillTokens int64
	SharedTokens  int64 // tokens copied from a shared prefix instead of prefilled
	DecodeTokens  int64 // tokens computed in decode steps, one per step
	SampledTokens int64
	Parked        int64 // number of times that a session's KV was dropped to free memory for another session
	Open          int   // number of open sessions
	Active        int   // number of open sessions with a call in progress
}

// Stats returns the current counters.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Open = len(s.open)
	for _, q := range s.open {
		if q.call != nil {
			st.Active++
		}
	}
	return st
}
