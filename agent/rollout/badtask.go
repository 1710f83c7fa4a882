package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// badAfter is how many instances in a row one episode has to lose in the reset
// of its task before the task can be called bad. Each of them has asked as often
// as its client repeats a request.
const badAfter = 3

// resets keeps what came of the resets of one task. A task that every server
// answers with the same failure, as where all lack its data, is bad: its
// episodes fail at once, and no server is blamed. One that was ever reset is
// not.
type resets struct {
	task data.Task

	mu      sync.Mutex
	kind    string   // in which the last one failed
	servers []string // on which it failed that way
	started bool
	bad     *BadTaskError
}

// BadTaskError says that a task is left out, since no server can reset it.
type BadTaskError struct {
	Task    string
	Servers []string
	Err     error // of the last instance
}

// Error names the task and what to do.
func (e *BadTaskError) Error() string {
	return fmt.Sprintf("task %s is left out: its reset failed the same way on %d instances, on every server (%s); fix its data there, or take it out of the tasks: %v",
		e.Task, badAfter, strings.Join(e.Servers, ", "), e.Err)
}

// Unwrap gives the failure, for errors.Is and errors.As.
func (e *BadTaskError) Unwrap() error { return e.Err }

// failed notes that an instance was lost by err while j played the task. first
// is true once the task is known to be bad by it.
func (r *resets) failed(j *job, server string, err error, inService []string) (bad *BadTaskError, first bool) {
	var known *env.Error
	if !env.ResetRefused(err) || !errors.As(err, &known) {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bad != nil {
		return r.bad, false
	}
	if way := fmt.Sprint(known.Kind, known.Status); way != r.kind {
		r.kind, r.servers, j.failedResets = way, nil, 0
	}
	if !slices.Contains(r.servers, server) {
		r.servers = append(r.servers, server)
	}
	if j.failedResets++; r.started || j.failedResets < badAfter {
		return nil, false
	}
	for _, s := range inService {
		if !slices.Contains(r.servers, s) {
			return nil, false
		}
	}
	r.bad = &BadTaskError{Task: r.task.ID, Servers: r.servers, Err: err}
	return r.bad, true
}

// succeeded notes that the task of j was succeeded.
func (r *resets) succeeded(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started, j.failedResets = true, 0
}

// badTask gives the error of a task that is bad, and the servers that could not
// reset it.
func (r *resets) badTask() (bad *BadTaskError, servers []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad, r.servers
}

// resetsOf gives the jobs of one task one record.
func resetsOf(jobs []*job) []*resets {
	byTask := map[string]*resets{}
	var all []*resets
	for _, j := range jobs {
		name := taskName(j.task)
		if byTask[name] == nil {
			byTask[name] = &resets{task: j.task}
			all = append(all, byTask[name])
		}
		j.resets = byTask[name]
	}
	return all
}
