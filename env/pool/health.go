package pool

import (
	"errors"
	"syscall"

	"github.com/openmanus/openmanus/env"
)

// health decides from the outcomes of requests whether a server stays in service.
// It has no clock and sends nothing: Pool carries out its verdicts.
//
// A few requests do not distinguish a dead server from a server that loses single
// requests: if a fifth of all requests fail at random, about one in 150 requests
// starts a run of three failures. Therefore the pool checks a suspect server: the
// pool requests the greeting, while the server stays in service with all its instances.
// The server is taken out if the greeting fails and no other request succeeds meanwhile,
// or after a run of failures too long to be random. After a refused connection there
// is no check: the process has ended, and a new process does not have its instances.
type health struct {
	limit    int  // length of the run of failures that takes the server out
	failures int  // failed requests since the last successful one
	creates  int  // failed creations since the last successful one
	outages  int  // quarantines and failed probes since the last successful request
	checking bool // a check is in progress
	works    bool // a request or a probe succeeded since the check began
	down     bool // the server is out of service

	// tasks contains the tasks whose reset failed since the last successful reset. A
	// task counts once, since the task itself may be at fault, for example if its
	// data is not on the server.
	tasks map[int]bool
}

// verdict is the action to take on a server.
type verdict int

const (
	keep    verdict = iota
	check           // request the greeting, then call checked with the result
	takeOut         // take the server out of service and call takenOut
)

// suspectAfter is the number of failures in a row after which a server is suspect. A
// failed connection or an exceeded time limit suffices alone.
const suspectAfter = 3

// requestFailed records a request whose failure indicates a fault of the server.
func (h *health) requestFailed(err error) verdict {
	if h.down {
		return keep
	}
	if h.failures++; h.failures >= h.limit || errors.Is(err, syscall.ECONNREFUSED) {
		return takeOut
	}
	var e *env.Error
	alarming := errors.As(err, &e) && (e.Kind == env.KindTimeout || e.Kind == env.KindConnection && !e.Sent)
	return h.suspectIf(alarming || h.failures >= suspectAfter)
}

// createFailed records a failed creation. requestFailed has recorded each of its
// attempts.
func (h *health) createFailed() verdict {
	if h.down {
		return keep
	}
	if h.creates++; h.creates >= h.limit {
		return takeOut
	}
	return h.suspectIf(true)
}

// resetFailed records a reset to a task that the server answered with an error.
func (h *health) resetFailed(task int) verdict {
	if h.down {
		return keep
	}
	if h.tasks == nil {
		h.tasks = map[int]bool{}
	}
	if h.tasks[task] = true; len(h.tasks) >= h.limit {
		return takeOut
	}
	return h.suspectIf(len(h.tasks) >= suspectAfter)
}

// resetOK records a reset that succeeded.
func (h *health) resetOK() { clear(h.tasks) }

func (h *health) suspectIf(reason bool) verdict {
	if !reason || h.checking {
		return keep
	}
	h.checking, h.works = true, false
	return check
}

// requestOK records a request that succeeded.
func (h *health) requestOK() {
	h.works = true
	if h.failures = 0; !h.down {
		h.outages = 0
	}
}

// createOK records a creation that succeeded.
func (h *health) createOK() { h.creates = 0 }

// checked records the result of a check.
func (h *health) checked(err error) verdict {
	h.checking = false
	if err == nil || h.works || h.down {
		return keep
	}
	h.outages++
	return takeOut
}

// takenOut records that the server was taken out of service. It returns the number of
// the pause before the first probe; 0 is no pause.
func (h *health) takenOut() (pause int) {
	h.down, h.failures, h.creates = true, 0, 0
	clear(h.tasks)
	h.outages++
	return h.outages - 1
}

// probeFailed records a failed probe and returns the number of the next pause.
func (h *health) probeFailed() (pause int) {
	h.outages++
	return h.outages - 1
}

// suspect reports whether a check is in progress and nothing has succeeded since it began. No instance is created on a suspect server.
func (h *health) suspect() bool { return h.checking && !h.works }

// restored records that a probe succeeded and the server is back in service. A check that began before has no effect, since it may have
// asked the process that ended.
func (h *health) restored() { h.down, h.works, h.failures, h.creates = false, true, 0, 0 }
