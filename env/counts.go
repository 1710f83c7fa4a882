package env

import "maps"

// Counts say what a pool's clients have met so far. They only grow.
type Counts struct {
	Exchanges   int64            // requests tried, those that failed included
	Instances   int64            // created
	Quarantines int64            // times a server was taken out of service
	Faults      map[string]int64 // failures by Error.Seen, and SeenSlow and SeenDuplicate
}

// Counts gives the counts so far.
func (p *Pool) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counts
	c.Faults = maps.Clone(c.Faults)
	return c
}

// watch counts an exchange with s, and tells health what it says of s.
func (p *Pool) watch(s *poolServer, failure *Error, marks []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Exchanges++
	for _, mark := range marks {
		if mark == SeenSlow || mark == SeenDuplicate { // the others are failures, and counted as such
			p.counts.Faults[mark]++
		}
	}
	if failure == nil {
		s.good()
		return
	}
	if seen := failure.Seen(); seen != "" {
		p.counts.Faults[seen]++
	}
	if ServerFault(failure) && failure.Seen() != SeenRestarted {
		p.heed(s, s.failed(failure), failure)
	}
}
