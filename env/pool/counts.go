package pool

import (
	"maps"

	"github.com/openmanus/openmanus/env"
)

// Counts say what a pool's clients have met so far. They only grow.
type Counts struct {
	Exchanges   int64            `json:"requests"` // tried, those that failed included
	Instances   int64            `json:"instances_created"`
	Quarantines int64            `json:"quarantines"` // times a server was taken out of service
	Faults      map[string]int64 `json:"faults"`      // failures by Error.Seen, and SeenSlow and SeenDuplicate
}

// Since is what was counted after before. Faults that there were none of are
// not among it.
func (c Counts) Since(before Counts) Counts {
	d := Counts{
		Exchanges: c.Exchanges - before.Exchanges, Instances: c.Instances - before.Instances,
		Quarantines: c.Quarantines - before.Quarantines, Faults: map[string]int64{},
	}
	for seen, n := range c.Faults {
		if n -= before.Faults[seen]; n != 0 {
			d.Faults[seen] = n
		}
	}
	return d
}

// AllFaults is how many faults there were of all kinds.
func (c Counts) AllFaults() int64 {
	var sum int64
	for _, n := range c.Faults {
		sum += n
	}
	return sum
}

// Counts gives the counts so far.
func (p *Pool) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counts
	c.Faults = maps.Clone(c.Faults)
	return c
}

// watch counts a request of sl to s and updates the health of s. It reports
// whether the instance is lost.
func (p *Pool) watch(s *server, sl *slot, x env.Attempt) (lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Exchanges++
	failure := x.Failure
	for _, mark := range x.Marks {
		if mark == env.SeenSlow || mark == env.SeenDuplicate { // the others are failures, and counted as such
			p.counts.Faults[mark]++
		}
	}
	if failure == nil {
		if s.good(); x.Op == env.OpReset {
			s.started()
		}
		return false
	}
	// That a task has ended is an answer to what a lost step came to, and no fault.
	ended := x.Op == env.OpRecall && failure.Kind == env.KindEnvironment
	if seen := failure.Seen(); seen != "" && !ended {
		p.counts.Faults[seen]++
	}
	lost = p.refused(s, failure)
	switch {
	case !env.ServerFault(failure) || failure.Seen() == env.SeenRestarted:
	case x.Op == env.OpReset && failure.Status != 0:
		p.heed(s, s.unstarted(sl.task), failure)
	default:
		p.heed(s, s.failed(failure), failure)
	}
	return lost
}
