package pool

import (
	"maps"

	"github.com/openmanus/openmanus/env"
)

// Counts are the counters of a pool. They only grow.
type Counts struct {
	Exchanges   int64            `json:"requests"` // attempts of requests, including failed ones
	Instances   int64            `json:"instances_created"`
	Quarantines int64            `json:"quarantines"` // times a server was taken out of service
	Faults      map[string]int64 `json:"faults"`      // failures by Error.Seen, and SeenSlow and SeenDuplicate
}

// Since returns the increase since an earlier value. It omits faults that did not
// occur in between.
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

// AllFaults returns the number of faults of all kinds.
func (c Counts) AllFaults() int64 {
	var sum int64
	for _, n := range c.Faults {
		sum += n
	}
	return sum
}

// Counts returns the current counters.
func (p *Pool) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counts
	c.Faults = maps.Clone(c.Faults)
	return c
}

// observe is the env.Options.Observe of sl's client: it counts an attempt and updates the
// health of s. It reports whether the instance is lost.
func (p *Pool) observe(s *server, sl *slot, x env.Attempt) (lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Exchanges++
	for _, mark := range x.Marks {
		if mark == env.SeenSlow || mark == env.SeenDuplicate { // the other marks cause failures, which are counted below
			p.counts.Faults[mark]++
		}
	}
	failure := x.Failure
	if failure == nil {
		if s.requestOK(); x.Op == env.OpReset {
			s.resetOK()
		}
		return false
	}
	// An error object in reply to a recall means that the task has ended, and is no fault.
	ended := x.Op == env.OpRecall && failure.Kind == env.KindEnvironment
	if seen := failure.Seen(); seen != "" && !ended {
		p.counts.Faults[seen]++
	}
	lost = p.noteRefusal(s, failure)
	switch {
	case !env.ServerFault(failure) || failure.Seen() == env.SeenRestarted:
	case x.Op == env.OpReset && failure.Status != 0:
		p.apply(s, s.resetFailed(sl.task), failure)
	default:
		p.apply(s, s.requestFailed(failure), failure)
	}
	return lost
}
