package engine

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
