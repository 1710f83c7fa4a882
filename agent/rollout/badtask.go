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

// badAfter is the number of consecutive instances on which an episode's reset must
// fail, in spite of the client's retries, before the task is considered bad.
const badAfter = 3

// resets records the resets of one task. A task that fails in the same way on
// every server, for example because all servers lack the task's data, is bad: the
// task's episodes fail at once, and no server is blamed. A task that was reset at least once is not bad.
type resets struct {
	task data.Task

	mu      sync.Mutex
	kind    string   // kind of the last failure
	servers []string // servers on which the reset failed with this kind
	started bool
	bad     *BadTaskError
}

// BadTaskError reports a task that is excluded because no server can reset it.
type BadTaskError struct {
	Task    string
	Servers []string
	Err     error // failure of the reset on the last instance
}

// Error names the task, the servers and the remedy.
func (e *BadTaskError) Error() string {
	return fmt.Sprintf("task %s is excluded: its reset failed in the same way on %d instances, on every server (%s); fix its data there or remove it from the tasks: %v",
		e.Task, badAfter, strings.Join(e.Servers, ", "), e.Err)
}

// Unwrap returns the failure, for errors.Is and errors.As.
func (e *BadTaskError) Unwrap() error { return e.Err }

// failed records the error err with which the job j lost an instance. The result
// first is true if this failure makes the task bad.
func (r *resets) failed(j *job, server string, err error, inService []string) (bad *BadTaskError, first bool) {
	known, ok := errors.AsType[*env.Error](err)
	if !ok || !env.ResetRefused(err) {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bad != nil {
		return r.bad, false
	}
	if kind := fmt.Sprint(known.Kind, known.Status); kind != r.kind {
		r.kind, r.servers, j.failedResets = kind, nil, 0
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

// succeeded records that the task of j was reset.
func (r *resets) succeeded(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started, j.failedResets = true, 0
}

// badTask returns an error if the task is bad, and otherwise nil. servers lists the
// servers that could not reset the task.
func (r *resets) badTask() (bad *BadTaskError, servers []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad, r.servers
}
