package env

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Kind is the sort of a failed exchange with an environment server. A Kind is
// an error itself, so errors.Is(err, env.KindTimeout) asks for one.
type Kind string

// The kinds. The first four are the error forms E1 to E4 of AgentGym servers.
const (
	KindEnvironment Kind = "environment error"    // E1: status 200 with an "error" key
	KindServer      Kind = "server error"         // E2: status 5xx
	KindValidation  Kind = "request refused"      // E3: status 422 and other 4xx
	KindRouting     Kind = "no such endpoint"     // E4: status 404, 405 and redirects
	KindTimeout     Kind = "time limit"           // no complete reply within the call's time
	KindOversize    Kind = "reply too large"      // more bytes than Options.MaxReply
	KindMalformed   Kind = "reply not understood" // not JSON, not UTF-8, or a key missing
	KindConnection  Kind = "connection failure"   // refused, reset, or closed before the reply ended
	KindCancelled   Kind = "cancelled"            // the caller's context ended first
)

// Error makes a Kind usable with errors.Is.
func (k Kind) Error() string { return string(k) }

// ErrBusy is returned when a second call reaches a client that is still in
// one. Servers do not guard an instance against this and corrupt its state.
var ErrBusy = errors.New("the environment instance is in use by another call: use one goroutine at a time")

// ErrClosed is returned by a client after Close.
var ErrClosed = errors.New("the environment instance is closed")

// ErrRestarted is the cause of every failure of an instance whose server was
// started again since: the request was not sent, or its reply was discarded. A
// new server process counts its ids from 0, so the old id may belong to another
// instance by now.
var ErrRestarted = errors.New("the server was started again, and the instance with the old one is lost")

// Error is a failed exchange with an environment server.
type Error struct {
	Kind   Kind
	Op     string // create, reset, step, observe, close, probe, version
	URL    string
	Status int    // 0 if no status line came
	Words  string // what the server said, shortened
	Sent   bool   // whether the request may have reached the server
	Err    error  // the cause below, nil if the server's reply is all there is

	// Observed is true if Options.Observe has received the failure.
	Observed bool

	// retryable is decided where the rules are known (caller.classify).
	retryable bool
}

// Error names the operation, the address, the kind, and the server's words.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "environment %s: %s: %s", e.Op, e.URL, e.Kind)
	if e.Status != 0 && e.Status != 200 {
		fmt.Fprintf(&b, ", status %d", e.Status)
	}
	switch {
	case e.Words != "":
		fmt.Fprintf(&b, ": %q", e.Words)
	case e.Kind == KindEnvironment:
		b.WriteString(": the server gave an empty error text")
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if h := e.hint(); h != "" {
		b.WriteString(" (" + h + ")")
	}
	return b.String()
}

func (e *Error) hint() string {
	switch e.Kind {
	case KindRouting:
		return "is this address a server of this environment?"
	case KindConnection:
		if !e.Sent && !errors.Is(e.Err, ErrRestarted) {
			return "is the server running?"
		}
	}
	return ""
}

// Unwrap gives the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is this error's Kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// NotSent reports whether the request certainly never reached the server, so
// that even a step may be sent again.
func (e *Error) NotSent() bool { return !e.Sent }

// Retryable reports whether the same request may be sent again: a step only
// if it was certainly not sent, any other request after a connection failure
// or a server error.
func (e *Error) Retryable() bool { return e.retryable }

// ServerFault reports whether err speaks against the server rather than
// against this instance or this request: the pool then tries the others.
func ServerFault(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Kind {
	case KindServer, KindTimeout, KindConnection, KindMalformed, KindOversize:
		return true
	}
	return false
}

// ResetRefused reports whether err is what a server answered to a reset or to the
// question for an observation: it is there, and does not start the task.
func ResetRefused(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status != 0 && (e.Op == OpReset || e.Op == OpObserve)
}

// maxWords bounds how much of a server's reply an error repeats.
const maxWords = 400

// shorten makes s fit for an error message.
func shorten(s string) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= maxWords {
		return s
	}
	cut := maxWords
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
