package engine

import (
	"cmp"
	"slices"
)

// form chooses the next batch and reserves its memory: one token for every
// session that decodes, then chunks of contexts in prefill, oldest call first.
// The caller has locked s.mu, and no step is in flight.
func (s *Scheduler) form() ([]*sequence, []Work) {
	version := s.backend.Version()
	s.evictStale(version)
	calls := s.calls()
	if len(calls) == 0 {
		return nil, nil
	}
	if !s.options.Deterministic {
		return s.fill(calls, version, func(*sequence) bool { return true })
	}
	// Prefill runs before decoding, so that the shapes of batches
	// depend on the ids alone and not on the order of arrival.
	batch, work := s.fill(calls, version, func(q *sequence) bool { return q.pending() > 1 })
	if len(batch) == 0 {
		batch, work = s.fill(calls, version, func(q *sequence) bool { return q.pending() == 1 })
	}
	return batch, work
}

// calls returns the sessions with a call in progress in the order of service:
// by arrival, or by key in deterministic mode. In deterministic mode it returns
// none until every open session has a call.
func (s *Scheduler) calls() []*sequence {
	var calls []*sequence
	for _, q := range s.open {
		switch {
		case q.call != nil:
			calls = append(calls, q)
		case s.options.Deterministic && !q.broken:
			return nil
		}
	}
	if s.options.Deterministic {
		slices.SortStableFunc(calls, func(a, b *sequence) int {
			x, y := a.session.options.Key, b.session.options.Key
			return cmp.Or(cmp.Compare(x.Task, y.Task), cmp.Compare(x.Sample, y.Sample),
				cmp.Compare(x.Seed, y.Seed), cmp.Compare(a.id, b.id))
		})
	} else {
		slices.SortFunc(calls, func(a, b *sequence) int { return cmp.Compare(a.call.ticket, b.call.ticket) })
	}
	return calls
}

// fill makes a batch of the calls that fit into the limits. It skips calls for which the function selected returns false.
func (s *Scheduler) fill(calls []*sequence, version int64, selected func(*sequence) bool) ([]*sequence, []Work) {
	type row struct {
		q      *sequence
		n      int       // tokens to run
		from   *sequence // sequence from which q copies its prefix; nil: no shared prefix
		shared int
	}
	var decode, prefill []row
	budget := s.options.PrefillTokens
	blocked := false // an older call waits for memory, so no younger call begins
	for i, q := range calls {
		if !selected(q) || blocked && !q.call.begun {
			continue
		}
		n := q.pending()
		var from *sequence
		shared := 0
		if q.blocks == 0 && s.shares() {
			from, shared = s.longestPrefix(q, version)
			n -= shared
			if slices.ContainsFunc(prefill, func(r row) bool {
				return max(r.q.cached, r.shared) >= shared && 2*(common(q, r.q.ids)-shared) >= n
			}) {
				continue // wait: another row of this batch computes at least half of the tokens, which q can share afterwards
			}
		}
		if q.pending() > 1 {
			n = min(n, s.options.ChunkTokens, budget)
			if n == 0 {
				continue
			}
		}
		if !s.admit(calls, i) {
			blocked = true
			continue
		}
		q.call.begun = true
		if q.pending() == 1 {
			decode = append(decode, row{q: q, n: n})
		} else {
			budget -= n
			prefill = append(prefill, row{q, n, from, shared})
		}
	}
	var batch []*sequence
	var work []Work
	for _, r := range append(decode, prefill...) {
		// If a later row has evicted the sequence r.from, r.q is computed from its first token. The evicted sequence may have
		// blocks again, but no tokens in them.
		if r.from != nil && max(r.from.cached, len(r.from.previous)) >= r.shared {
			r.q.from, r.q.cached = r.from.id, r.shared
			s.stats.SharedTokens += int64(r.shared)
		}
		r.q.inFlight = true
		r.q.version = version
		batch = append(batch, r.q)
		work = append(work, r.q.work(r.n))
	}
	return batch, work
}
