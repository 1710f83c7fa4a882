package engine

import (
	"cmp"
	"slices"
)

// admit reserves memory for the whole context of calls[i], the i-th oldest, and
// reports whether this call may run now. calls[:i] are already in this batch
// and keep their memory.
//
// A call that begins, or resumes after it was parked, takes only memory that no
// running reply uses, and leaves one block for each running reply, so that running
// replies do not park the call again. A running reply may park the youngest call.
// The oldest call may park all others, so it always makes progress.
func (s *Scheduler) admit(calls []*sequence, i int) bool {
	q := calls[i]
	need := s.blocks(len(q.ids)) - q.blocks
	if need <= 0 {
		return true
	}
	starting := !q.call.begun || q.blocks == 0
	if starting && i > 0 && need+s.running(q) > s.free()+s.reclaimable(calls, i) {
		return false
	}
	for need > s.free() {
		victim := s.leastRecentlyUsed()
		if victim == nil {
			victim = youngest(calls[i+1:], func(v *sequence) bool { return !v.call.begun })
		}
		if victim == nil && (!starting || i == 0) {
			victim = youngest(calls[i+1:], func(*sequence) bool { return true })
		}
		if victim == nil {
			return false
		}
		s.park(victim)
	}
	q.blocks += need
	s.used += need
	return true
}

// expected returns the number of blocks that q's context is expected to have when it ends.
func (s *Scheduler) expected(q *sequence) int {
	return s.blocks(max(len(q.ids), min(q.limit, s.expectTokens)))
}

// observeLength updates the expected context length with the length of a
// context that has ended. It keeps a slowly decaying maximum, because a low
// estimate parks every session while a high estimate only leaves memory idle.
// The first observation replaces Options.ExpectTokens.
func (s *Scheduler) observeLength(tokens int) {
	if tokens == 0 { // closed before its first Generate
		return
	}
	if s.observed {
		tokens = max(tokens, s.expectTokens-s.expectTokens/16)
	}
	s.expectTokens, s.observed = tokens, true
}

func (s *Scheduler) free() int { return s.capacity - s.used }

// running returns the number of running replies other than q that hold memory.
func (s *Scheduler) running(q *sequence) int {
	n := 0
	for _, other := range s.open {
		if other != q && other.call != nil && other.call.begun && other.blocks > 0 {
			n++
		}
	}
	return n
}

// reclaimable returns the number of blocks that can be freed for calls[i]
// without parking a running reply.
func (s *Scheduler) reclaimable(calls []*sequence, i int) int {
	n := 0
	for _, q := range s.open {
		if q.call == nil {
			n += q.blocks
		}
	}
	for _, q := range calls[i+1:] {
		if !q.call.begun {
			n += q.blocks
		}
	}
	return n
}

// leastRecentlyUsed returns the least recently used of the sessions that are between two turns.
func (s *Scheduler) leastRecentlyUsed() *sequence {
	var best *sequence
	for _, q := range s.open {
		if q.call == nil && q.blocks > 0 && (best == nil || cmp.Or(cmp.Compare(q.touched, best.touched), cmp.Compare(q.id, best.id)) < 0) {
			best = q
		}
	}
	return best
}

// youngest returns the last element of calls that holds memory and for which the function selected returns true.
func youngest(calls []*sequence, selected func(*sequence) bool) *sequence {
	for _, q := range slices.Backward(calls) {
		if q.blocks > 0 && selected(q) {
			return q
		}
	}
	return nil
}

// park frees q's KV, which is recomputed from q.ids when q resumes.
func (s *Scheduler) park(q *sequence) {
	s.stats.Parked++
	s.evict(q)
}

// evictStale frees KV that was computed with another version of the weights.
func (s *Scheduler) evictStale(version int64) {
	for _, q := range s.open {
		if (q.cached > 0 || q.previous != nil) && q.version != version {
			s.evict(q)
		}
	}
}

// evict frees q's memory. The backend frees the KV before its next step. A
// sequence in flight is evicted when its step returns.
func (s *Scheduler) evict(q *sequence) {
	if q.inFlight || q.blocks == 0 {
		return
	}
	s.drops = append(s.drops, q.id)
	s.used -= q.blocks
	q.blocks, q.cached, q.from, q.previous = 0, 0, 0, nil
}

// Prefix sharing: the common prefix of several contexts is computed once.
// Samples of one task share their prompt, and consecutive contexts of an
// episode usually share the instruction. Memory is reserved as without sharing,
// so that a session's memory does not depend on other sessions; sharing saves
// time only.

func (s *Scheduler) shares() bool { return !s.options.NoSharing && !s.options.Deterministic }

// leastShared is the length of the shortest prefix that is shared: nearly all
// contexts begin with the same few tokens, which are not worth a copy.
const leastShared = 8

// common returns the length of the common prefix of q's context and ids, or 0
// if it is shorter than leastShared. It excludes the last token of q, whose
// hidden state is needed to sample the next token.
func common(q *sequence, ids []int32) int {
	most := min(len(ids), len(q.ids)-1)
	n := 0
	for n < most && q.ids[n] == ids[n] {
		n++
	}
	if n < leastShared {
		return 0
	}
	return n
}

// longestPrefix returns the sequence that shares the longest prefix with q, and
// the length of that prefix.
func (s *Scheduler) longestPrefix(q *sequence, version int64) (from *sequence, n int) {
	for _, other := range s.open {
		if other == q || other.blocks == 0 || other.version != version {
			continue
		}
		prefix := other.previous
		if prefix == nil {
			prefix = other.ids[:other.cached]
		}
		if k := common(q, prefix); k > n {
			from, n = other, k
		}
	}
	return from, n
}

// reusePrevious keeps the KV of the common prefix of a restarted session's
// previous and new contexts.
func (s *Scheduler) reusePrevious(q *sequence) {
	if q.previous == nil {
		return
	}
	n := common(q, q.previous)
	if n == 0 {
		s.evict(q)
		return
	}
	q.cached, q.previous = n, nil
	s.stats.SharedTokens += int64(n)
}
