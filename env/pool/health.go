package pool

import (
	"errors"
	"syscall"

	"github.com/openmanus/openmanus/env"
)

// health decides from how exchanges with a server end whether the server stays
// in service. It knows no clock and makes no request; Pool does what it says.
//
// A server that is gone and one that loses a request now and then look alike
// in a few exchanges: where a fifth of all requests fail, three in a row do at
// every 150th. What tells them apart is the greeting. So a suspect server is
// asked for it first, and stays in service meanwhile with all its instances;
// only silence takes it out, while nothing else goes well either, or a row of
// failures that chance does not explain: it greets, and does nothing else. Where
// nobody listens there is nothing to ask: the process is gone, and whatever
// listens there next knows no instance of before.
type health struct {
	limit   int  // the length of that row
	row     int  // failed exchanges since the last good one
	creates int  // instances that it failed to create since the last that it did
	rests   int  // times it was taken out, and probes that failed, since the last good exchange
	asking  bool // it is being asked, in service; it creates no instance until it has answered
	works   bool // an exchange went well since it was asked: the greeting was lost as others are
	down    bool // it is out of service

	// tasks are those whose reset it answered with a failure since it last
	// reset one. The same task again says nothing more: it may be the task that
	// is at fault, as where the server lacks its data.
	tasks map[int]bool
}

// verdict is what is to be done about a server.
type verdict int

const (
	stay verdict = iota
	ask          // ask for the greeting, and call answered
	rest         // take it out of service, and call out
)

// asksAfter is the row of failures that makes a server suspect. One that came
// to no connection, or cost a whole time limit, is enough.
const asksAfter = 3

// failed hears of an exchange that speaks against the server.
func (h *health) failed(err error) verdict {
	if h.down {
		return stay
	}
	if h.row++; h.row >= h.limit || errors.Is(err, syscall.ECONNREFUSED) {
		return rest
	}
	var e *env.Error
	alarming := errors.As(err, &e) && (e.Kind == env.KindTimeout || e.Kind == env.KindConnection && !e.Sent)
	return h.suspect(alarming || h.row >= asksAfter)
}

// uncreated hears of an instance that did not come about in all its tries, each
// of which failed has heard of.
func (h *health) uncreated() verdict {
	if h.down {
		return stay
	}
	if h.creates++; h.creates >= h.limit {
		return rest
	}
	return h.suspect(true)
}

// unstarted hears of a reset of a task that was answered with a failure.
func (h *health) unstarted(task int) verdict {
	if h.down {
		return stay
	}
	if h.tasks == nil {
		h.tasks = map[int]bool{}
	}
	if h.tasks[task] = true; len(h.tasks) >= h.limit {
		return rest
	}
	return h.suspect(len(h.tasks) >= asksAfter)
}

// started hears of a reset that went well.
func (h *health) started() { clear(h.tasks) }

func (h *health) suspect(reason bool) verdict {
	if !reason || h.asking {
		return stay
	}
	h.asking, h.works = true, false
	return ask
}

// good hears of an exchange that went well.
func (h *health) good() {
	h.works = true
	if h.row = 0; !h.down {
		h.rests = 0
	}
}

// created hears of an instance that came about.
func (h *health) created() { h.creates = 0 }

// answered hears what became of the question of ask.
func (h *health) answered(err error) verdict {
	h.asking = false
	if err == nil || h.works || h.down {
		return stay
	}
	h.rests++
	return rest
}

// out hears that the server was taken out of service, and gives the number of
// the pause before it is probed, 0 for at once.
func (h *health) out() (pause int) {
	h.down, h.row, h.creates = true, 0, 0
	clear(h.tasks)
	h.rests++
	return h.rests - 1
}

// silent hears of a probe that failed, and gives the number of the next pause.
func (h *health) silent() (pause int) {
	h.rests++
	return h.rests - 1
}

// back hears of a probe that was answered.
func (h *health) back() { h.down, h.row, h.creates = false, 0, 0 }
