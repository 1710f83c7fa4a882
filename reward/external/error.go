package external

import "fmt"

// Kind says how a score function failed.
type Kind string

// The kinds of failures.
const (
	KindUnreachable Kind = "unreachable" // no server, or no program that starts
	KindTimeout     Kind = "timeout"
	KindCrashed     Kind = "crashed" // the program ended, or the server cut the reply
	KindStatus      Kind = "status"  // the server answered with another status than 200
	KindReply       Kind = "reply"   // what came back is no list of scores
)

// Error is the failure of a score function.
type Error struct {
	Fn    string // as in the configuration
	Kind  Kind
	Err   error
	Wrote string // the end of what a program wrote to standard error
}

// Error names the function, the failure and its cause.
func (e *Error) Error() string {
	text := fmt.Sprintf("score function %s: %s: %v", e.Fn, e.Kind, e.Err)
	if e.Wrote != "" {
		text += "; it wrote: " + e.Wrote
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// again reports whether asking once more may help: an answer that makes no
// sense would come again.
func (e *Error) again() bool { return e.Kind != KindReply }
