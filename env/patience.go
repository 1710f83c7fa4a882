package env

import "time"

// patience tells where a time limit is out of proportion: a request that hangs
// costs all of it, again and again, and nothing else shows why a run stands
// still. Requests of one sort are compared with each other, since creating an
// instance may well take a thousand times what a step does.
type patience struct {
	good    int           // requests that went well
	slowest time.Duration // of these
	said    bool
}

// A limit is worth a word when it is long, when much is known of what requests
// take, and when it is many times the slowest that ever went well.
const (
	patientFrom  = 10 * time.Second
	patientAfter = 100
	patientTimes = 20
)

// took hears of a request that went well.
func (a *patience) took(d time.Duration) {
	a.good++
	a.slowest = max(a.slowest, d)
}

// wasted hears of one that took all its time, and reports whether to say so:
// once.
func (a *patience) wasted(d time.Duration) bool {
	say := !a.said && d >= patientFrom && a.good >= patientAfter && d >= patientTimes*a.slowest
	a.said = a.said || say
	return say
}

// time compares what an exchange of sort op took with the others. The caller
// holds mu.
func (p *Pool) time(s *poolServer, op string, took time.Duration, failure *Error) {
	a := p.waits[op]
	if a == nil {
		a = &patience{}
		p.waits[op] = a
	}
	switch {
	case failure == nil:
		a.took(took)
	case failure.Kind == KindTimeout && a.wasted(took):
		p.log.Warn("a request to an environment server hung for its whole time limit, many times what others take: a lower one would cost less (env.timeout_s, or that of the operation)",
			"server", s.url, "operation", op, "limit", took.Round(time.Millisecond), "slowest", a.slowest.Round(time.Millisecond))
	}
}
