package engine

import (
	"errors"
	"fmt"
)

// Errors that callers tell apart.
var (
	// ErrShutdown is returned by calls on a scheduler that was shut down.
	ErrShutdown = errors.New("the engine is shut down")
	// ErrSessionClosed is returned by Generate on a closed session.
	ErrSessionClosed = errors.New("the session is closed")
	// ErrSessionBroken is returned by Generate on a session whose last
	// Generate failed or was cancelled. Such a session can only be closed.
	ErrSessionBroken = errors.New("the session's last reply failed or was cancelled; close it and open another")
	// ErrTooLarge is returned by Open for a session that could never fit.
	ErrTooLarge = errors.New("the session is larger than the KV budget")
)

// BackendError is what Generate returns when the backend failed on a batch
// that held the session. The scheduler itself goes on.
type BackendError struct {
	Step int64 // number of the step, from 1
	Rows int   // sequences in the batch
	Err  error
}

// Error names the step and the cause.
func (e *BackendError) Error() string {
	return fmt.Sprintf("engine step %d (%d sequences): %v", e.Step, e.Rows, e.Err)
}

// Unwrap returns the cause.
func (e *BackendError) Unwrap() error { return e.Err }
