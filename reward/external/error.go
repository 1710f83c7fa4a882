package external

import "fmt"

// Kind classifies the failure of a score function.
type Kind string

// The kinds.
const (
	KindUnreachable Kind = "unreachable" // no connection, or the program cannot be started
	KindTimeout     Kind = "timeout"     // no complete reply within Options.Timeout
	KindCrashed     Kind = "crashed"     // the program ended, or the server closed the connection within the reply
	KindStatus      Kind = "status"      // a status of 5xx, or of 2xx other than 200
	KindReply       Kind = "reply"       // the reply is not a list of scores
)

// Error is the failure of a score function.
type Error struct {
	Fn     string // as in the configuration
	Kind   Kind
	Err    error
	Stderr string // the end of a program's standard error
}

// Error returns the function, the kind, the cause and the program's standard error.
func (e *Error) Error() string {
	text := fmt.Sprintf("score function %s: %s: %v", e.Fn, e.Kind, e.Err)
	if e.Stderr != "" {
		text += "; standard error: " + e.Stderr
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// retryable reports whether the same request may succeed later. After an invalid reply a second
// request would fail too: the function would give the same reply.
func (e *Error) retryable() bool { return e.Kind != KindReply }
