package engine

import (
	"cmp"
	"slices"
)

// admit makes room for the whole context of calls[i], the i-th oldest, and
// reports whether it may work now. calls[:i] were dealt with in this batch and
// keep what they hold.
//
// A call that begins, or resumes after it was parked, takes only memory that
// nobody works with, and leaves a block for every reply under way, which would
// else push it out again. A reply under way may park the youngest. The oldest
// may park all others: it always goes on.
func (s *Scheduler) admit(calls []*sequence, i int) bool {
	q := calls[i]
	need := s.blocks(len(q.ids)) - q.blocks
	if need <= 0 {
		return true
	}
	starting := !q.call.begun || q.blocks == 0
	if starting && i > 0 && need+s.underWay(q) > s.free()+s.reclaimable(calls, i) {
		return false
	}
	for need > s.free() {
		victim := s.idlest()
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
	s.stats.PeakTokens = max(s.stats.PeakTokens, s.used*s.block)
	return true
}

// expected is the number of blocks that q holds or is taken to grow to.
func (s *Scheduler) expected(q *sequence) int {
	return s.blocks(max(len(q.ids), min(q.limit, s.usual)))
}

// learn takes the length of a context that has ended into what is usual: the
// longest of late, since too low a guess costs every session its KV while too
// high a one only leaves memory idle. An outlier is forgotten after a while,
// and Options.ExpectTokens with the first.
func (s *Scheduler) learn(tokens int) {
	if tokens == 0 { // closed before it was given anything
		return
	}
	if s.learnt {
		tokens = max(tokens, s.usual-s.usual/16)
	}
	s.usual, s.learnt = tokens, true
}

func (s *Scheduler) free() int { return s.capacity - s.used }

// underWay counts the replies under way, but for q's, that hold memory.
func (s *Scheduler) underWay(q *sequence) int {
	n := 0
	for _, other := range s.open {
		if other != q && other.call != nil && other.call.begun && other.blocks > 0 {
			n++
		}
	}
	return n
}

// reclaimable counts the blocks that can be had for calls[i] without stopping
// a reply under way.
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

// idlest is the session between two turns that was used least recently.
func (s *Scheduler) idlest() *sequence {
	var best *sequence
	for _, q := range s.open {
		if q.call == nil && q.blocks > 0 && (best == nil || cmp.Or(cmp.Compare(q.touched, best.touched), cmp.Compare(q.id, best.id)) < 0) {
			best = q
		}
	}
	return best
}

// youngest is the last of calls that holds memory and is liked.
func youngest(calls []*sequence, like func(*sequence) bool) *sequence {
	for _, q := range slices.Backward(calls) {
		if q.blocks > 0 && like(q) {
			return q
		}
	}
	return nil
}

// park drops q's KV; it is rebuilt from q.ids when q goes on.
func (s *Scheduler) park(q *sequence) {
	s.stats.Parked++
	s.stats.ParkedTokens += int64(q.cached)
	s.evict(q)
}

// evictStale drops the KV that was made by weights other than version.
func (s *Scheduler) evictStale(version int64) {
	for _, q := range s.open {
		if (q.cached > 0 || q.left != nil) && q.version != version {
			s.evict(q)
		}
	}
}

// evict gives q's memory back. The backend is told before its next step; a
// sequence in flight is evicted again when it comes back.
func (s *Scheduler) evict(q *sequence) {
	if q.inFlight || q.blocks == 0 {
		return
	}
	s.drops = append(s.drops, q.id)
	s.used -= q.blocks
	q.blocks, q.cached, q.from, q.left = 0, 0, 0, nil
}

// Contexts that begin alike share the work of their beginning: the samples of
// one task have their prompt in common, and a context that follows another in
// an episode mostly has its instruction. What is shared is whole blocks. Room
// is reserved as if nothing were, so that a session's memory never depends on
// another's, and what sharing saves is time.

func (s *Scheduler) shares() bool { return !s.options.NoSharing && !s.options.Deterministic }

// common is the number of tokens, in whole blocks, that q's context and ids
// begin with. One token at least is left to q: somebody must compute what
// follows.
func (s *Scheduler) common(q *sequence, ids []int32) int {
	most := min(len(ids), len(q.ids)-1)
	n := 0
	for n < most && q.ids[n] == ids[n] {
		n++
	}
	return n - n%s.block
}

// alike finds the sequence whose KV q can take most of, and how many tokens.
func (s *Scheduler) alike(q *sequence, version int64) (from *sequence, n int) {
	for _, other := range s.open {
		if other == q || other.blocks == 0 || other.version != version {
			continue
		}
		held := other.left
		if held == nil {
			held = other.ids[:other.cached]
		}
		if k := s.common(q, held); k > n {
			from, n = other, k
		}
	}
	return from, n
}

// resume keeps of what a restarted session still has in the backend that with
// which its new context begins.
func (s *Scheduler) resume(q *sequence) {
	if q.left == nil {
		return
	}
	n := s.common(q, q.left)
	if n == 0 {
		s.evict(q)
		return
	}
	q.cached, q.left = n, nil
	s.stats.SharedTokens += int64(n)
}
