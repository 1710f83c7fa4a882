package openai

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Kind is the kind of a failed exchange with an endpoint. A Kind is an error, so
// that errors.Is(err, openai.KindAuth) works.
type Kind string

// The kinds.
const (
	KindConnection Kind = "connection failure"      // refused, reset, or closed before the reply ended
	KindTimeout    Kind = "time limit"              // no complete reply in time, or status 408
	KindServer     Kind = "server error"            // status 5xx
	KindRate       Kind = "too many requests"       // status 429
	KindQuota      Kind = "no credit left"          // status 402, or 429 with code insufficient_quota
	KindAuth       Kind = "not allowed"             // status 401 or 403
	KindMissing    Kind = "no such endpoint"        // status 404, 405 or a redirect
	KindRefused    Kind = "request refused"         // other 4xx
	KindContext    Kind = "conversation too long"   // a 4xx with a message about the context length
	KindMalformed  Kind = "reply not understood"    // not JSON, truncated, or of another form
	KindEmpty      Kind = "reply without an answer" // no choice, or a choice without text
	KindFiltered   Kind = "reply filtered"          // finish_reason content_filter
	KindOversize   Kind = "reply too large"         // more bytes than maxReply
	KindCancelled  Kind = "cancelled"               // the caller's context ended first
)

// Error makes a Kind usable with errors.Is.
func (k Kind) Error() string { return string(k) }

// kinds lists the properties of each Kind that differ from zero. retry: the
// same request may succeed later (repeating a request is safe). hopeless: every
// later request would fail in the same way. hint: a suggestion for the user.
var kinds = map[Kind]struct {
	retry, hopeless bool
	hint            string
}{
	KindConnection: {retry: true, hint: "is the endpoint up, and is its address correct?"},
	KindTimeout:    {retry: true, hint: "is the endpoint up, and is its address correct?"},
	KindServer:     {retry: true},
	KindRate:       {retry: true, hint: "lower the number of concurrent requests"},
	KindMalformed:  {retry: true},
	KindEmpty:      {retry: true},
	KindQuota:      {hopeless: true},
	KindAuth:       {hopeless: true, hint: "is the key in its environment variable, and is it correct?"},
	KindMissing:    {hopeless: true, hint: "are the base URL, which usually ends in /v1, and the model's name correct?"},
}

// Error describes a failed exchange with an endpoint.
type Error struct {
	Kind     Kind
	URL      string
	Status   int    // 0 without a status line
	Words    string // the endpoint's message, shortened, without the key
	Attempts int    // number of attempts
	Err      error  // the cause; may be nil

	wait time.Duration // pause that the endpoint requests
}

// Error returns the address, the kind, the endpoint's message and a hint.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "endpoint %s: %s", e.URL, e.Kind)
	if e.Status != 0 && e.Status != 200 {
		fmt.Fprintf(&b, ", status %d", e.Status)
	}
	if e.Words != "" {
		fmt.Fprintf(&b, ": %q", e.Words)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, ", after %d attempts", e.Attempts)
	}
	if h := kinds[e.Kind].hint; h != "" {
		b.WriteString(" (" + h + ")")
	}
	return b.String()
}

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is this error's Kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// Hopeless reports whether every later request would fail in the same way.
func (e *Error) Hopeless() bool { return kinds[e.Kind].hopeless }

// retryAfter returns the wait that a response requests with Retry-After, in seconds
// or as a date (RFC 9110, 10.2.3), or with retry-after-ms; 0 without these headers.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil {
		return boundedDuration(ms * float64(time.Millisecond))
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return boundedDuration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil {
		if date, err := http.ParseTime(h.Get("Date")); err == nil {
			now = date // compare with the endpoint's clock, which may differ from the local clock
		}
		return max(0, at.Sub(now))
	}
	return 0
}

// boundedDuration converts untrusted nanoseconds to a duration from 0 to one year.
func boundedDuration(ns float64) time.Duration {
	const year = float64(365 * 24 * time.Hour)
	if !(ns > 0) {
		return 0
	}
	return time.Duration(min(ns, year))
}
