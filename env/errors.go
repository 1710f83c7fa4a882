package env

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind classifies a failed exchange with an environment server. A Kind is an
// error itself, for errors.Is(err, env.KindTimeout).
type Kind string

// The kinds. The first four are the error forms E1 to E4 of AgentGym servers.
const (
	KindEnvironment Kind = "environment error"    // E1: status 200 with an "error" key
	KindServer      Kind = "server error"         // E2: status 5xx
	KindValidation  Kind = "request refused"      // E3: status 422 and other 4xx
	KindRouting     Kind = "no such endpoint"     // E4: status 404, 405 and redirects
	KindTimeout     Kind = "time limit"           // no complete reply within the call's time
	KindOversize    Kind = "reply too large"      // more bytes than Options.MaxReply
	KindMalformed   Kind = "reply not understood" // not JSON, not UTF-8, or without a required key
	KindConnection  Kind = "connection failure"   // refused, reset, or closed before the reply ended
	KindCancelled   Kind = "cancelled"            // the caller's context ended first
)

// Error makes a Kind usable with errors.Is.
func (k Kind) Error() string { return string(k) }

// ErrBusy is the error of a call while the client is still in another call. Servers
// do not guard their instances: two calls at once corrupt the state.
var ErrBusy = errors.New("the environment instance is in use by another call: use one goroutine at a time")

// ErrClosed is the error of a call after Close.
var ErrClosed = errors.New("the environment instance is closed")

// ErrRestarted is the cause of every failure of an instance after its server
// restarted: the request was not sent, or its reply was discarded. The new process
// counts ids from 0, so the old id may belong to another instance.
var ErrRestarted = errors.New("the server restarted, and its instances are lost")

// Error is a failed exchange with an environment server.
type Error struct {
	Kind   Kind
	Op     string // create, reset, step, observe, close, probe, version
	URL    string
	Status int    // status of the reply; 0: no status line was received
	Words  string // text of the server's reply, shortened
	Sent   bool   // whether the request may have reached the server
	Err    error  // the cause; nil if the server's reply is the error

	// Observed is true if Options.Observe has received the failure.
	Observed bool

	retryable bool // set by caller.classify
}

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
	switch {
	case e.Kind == KindRouting:
		b.WriteString(" (is this address a server of this environment?)")
	case e.Kind == KindConnection && !e.Sent && !errors.Is(e.Err, ErrRestarted):
		b.WriteString(" (is the server running?)")
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is this error's Kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// Retryable reports whether the same request may be sent again. A step may be repeated if it
// was certainly not sent. Other requests may be repeated after a connection failure or a server error.
func (e *Error) Retryable() bool { return e.retryable }

// ServerFault reports whether err indicates a fault of the server rather than of
// the instance or the request. After such a fault a pool tries other servers.
func ServerFault(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains([]Kind{KindServer, KindTimeout, KindConnection, KindMalformed, KindOversize}, e.Kind)
}

// ResetRefused reports whether a server is up but answered a reset, or the
// request for the observation after it, with an error.
func ResetRefused(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status != 0 && (e.Op == OpReset || e.Op == OpObserve)
}

// Failed exchanges are counted under these names, and under http_N for a reply with
// status N. The names state the effect on the client. They are the same for failures
// of the server and for faults that the proxy (env/proxy) injects.
const (
	SeenTimeout     = "timeout"           // no complete reply within the call's time
	SeenTruncated   = "truncated"         // the connection ended after the status line
	SeenReset       = "reset"             // the connection ended before any reply
	SeenRefused     = "refused"           // no connection was established
	SeenRestarted   = "restarted"         // the cause is ErrRestarted
	SeenMalformed   = "malformed"         // the reply does not belong to this environment
	SeenOversize    = "oversize"          // more bytes than Options.MaxReply
	SeenEnvironment = "environment_error" // status 200 with an "error" key
	SeenSlow        = "slow"              // a good reply that env/fault delayed
	SeenDuplicate   = "duplicate"         // a good reply to a request that env/fault sent twice
)

// injectedHeader is the header in which env/fault lists the faults that it injected
// into an exchange (fault.Header; this package may not import it). It is the only
// sign of a delayed reply or a repeated request.
const injectedHeader = "X-Openmanus-Fault"

// Seen returns the name under which the failure is counted, or "" if the caller's
// context ended the call.
func (e *Error) Seen() string {
	switch e.Kind {
	case KindServer, KindValidation, KindRouting:
		return "http_" + strconv.Itoa(e.Status)
	case KindConnection:
		switch {
		case errors.Is(e.Err, ErrRestarted):
			return SeenRestarted
		case !e.Sent:
			return SeenRefused
		case e.Status == 0:
			return SeenReset
		}
		return SeenTruncated
	}
	return map[Kind]string{
		KindTimeout: SeenTimeout, KindOversize: SeenOversize, KindEnvironment: SeenEnvironment, KindMalformed: SeenMalformed,
	}[e.Kind]
}
