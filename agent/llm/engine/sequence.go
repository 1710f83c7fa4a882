package engine

import (
	"context"
	"slices"

	"github.com/openmanus/openmanus/data"
)

// sequence is the scheduler's state of a Session, guarded by the scheduler's
// mutex.
type sequence struct {
	id       SeqID
	session  *Session
	taskHash uint64
	limit    int           // maximum number of tokens in the context
	ids      []int32       // the context: given and sampled tokens
	cached   int           // ids[:cached] are in the backend
	from     SeqID         // if not 0, the next batch copies the KV of ids[:cached] from this sequence
	previous []int32       // after a Restart: the part of the previous context that is still in the backend
	blocks   int           // reserved blocks of the KV budget
	version  int64         // version of the weights that computed the cached KV
	touched  int64         // number of the step that ran its last batch
	call     *call         // nil between turns
	inFlight bool          // part of the batch that the backend runs now
	admitted chan struct{} // closed when Open may return
	closed   bool
	broken   bool // a Generate failed or was cancelled; only Close is allowed
}

// call is one Generate in progress.
type call struct {
	params Params
	ticket int64 // order of arrival
	start  int   // sequence.ids[start:] is the reply so far
	first  int64 // version of the weights that sampled the first token of the reply
	begun  bool  // a part of the call has run
	scan   *stopScan
	decode func(id int32) string

	reply Reply // reply so far; its IDs are set when the call ends
	err   error
	done  chan struct{} // closed when reply and err are set
}

// work returns the Work for the next n ids of q that the backend does not have.
func (q *sequence) work(n int) Work {
	end := q.cached + n
	w := Work{
		Seq:    q.id,
		Tokens: q.ids[q.cached:end:end],
		Pos:    q.cached,
		From:   q.from,
		Sample: end == len(q.ids),
	}
	key, p := q.session.options.Key, q.call.params
	w.Draw = Draw{Seed: key.Seed, Task: q.taskHash, Sample: key.Sample, Turn: p.Turn, Position: end}
	w.Temperature, w.Greedy, w.TopP, w.TopK, w.Top = p.Temperature, p.Greedy, p.TopP, p.TopK, p.Top
	return w
}

// accept appends a sampled token to the reply. It returns the stop reason and
// true if the token ends the reply.
func (q *sequence) accept(t Sampled) (StopReason, bool) {
	c := q.call
	q.ids = append(q.ids, t.Token)
	if len(c.reply.LogProbs) == 0 {
		c.first = q.version
	}
	c.reply.LogProbs = append(c.reply.LogProbs, t.LogProb)
	if !c.params.Greedy && (c.params.TopK > 0 || c.params.TopP < 1) {
		c.reply.Kept = append(c.reply.Kept, data.NewTokenSet(t.Kept))
	}
	if c.params.Each != nil {
		c.params.Each(Token{ID: t.Token, LogProb: t.LogProb, Top: t.Top})
	}
	switch {
	case slices.Contains(c.params.StopTokens, t.Token):
		return StopEOS, true
	case c.scan != nil && c.scan.push(c.decode(t.Token)):
		return StopString, true
	case len(q.ids) >= q.limit:
		return StopContext, true
	case len(q.ids)-c.start >= c.params.MaxNew:
		return StopLength, true
	}
	return "", false
}

// pending returns the number of ids that the backend does not have yet.
func (q *sequence) pending() int { return len(q.ids) - q.cached }

// newCall prepares a Generate with normalised parameters.
func (s *Scheduler) newCall(p Params) *call {
	c := &call{params: p, done: make(chan struct{})}
	if len(p.StopStrings) > 0 {
		c.scan = newStopScan(p.StopStrings)
		c.decode = s.options.NewDecoder()
	}
	return c
}

// finish ends q's call with a reply or an error. After an error the session can
// only be closed. The caller has locked s.mu.
func (s *Scheduler) finish(q *sequence, stop StopReason, err error) {
	c := q.call
	q.call = nil
	if err != nil {
		c.reply, c.err = Reply{}, err
		q.broken = true
		s.evict(q)
	} else {
		c.reply.IDs, c.reply.Stop = slices.Clone(q.ids[c.start:]), stop
		c.reply.Version, c.reply.Behind = q.version, q.version-c.first
	}
	close(c.done)
}

// wait returns c's result, or cancels the call if ctx ends first.
func (s *Scheduler) wait(ctx context.Context, q *sequence, c *call) (Reply, error) {
	select {
	case <-c.done:
		return c.reply, c.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.call == c { // the call may have finished in the meantime
		s.finish(q, "", ctx.Err())
		s.changed()
	}
	return c.reply, c.err
}
