package openai

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind is the sort of a failed exchange with an endpoint. A Kind is an error
// itself, so errors.Is(err, openai.KindAuth) asks for one.
type Kind string

// The kinds.
const (
	KindConnection Kind = "connection failure"      // refused, reset, or closed before the reply ended
	KindTimeout    Kind = "time limit"              // no complete reply in time, or status 408
	KindServer     Kind = "server error"            // status 5xx
	KindRate       Kind = "too many requests"       // status 429
	KindQuota      Kind = "no credit left"          // status 402, or 429 that waiting does not mend
	KindAuth       Kind = "not allowed"             // status 401, 403
	KindMissing    Kind = "no such endpoint"        // status 404, 405, and redirects
	KindRefused    Kind = "request refused"         // other 4xx
	KindContext    Kind = "conversation too long"   // a 400 that says so
	KindMalformed  Kind = "reply not understood"    // not JSON, cut off, or of another shape
	KindEmpty      Kind = "reply without an answer" // no choice, or one without text
	KindFiltered   Kind = "reply held back"         // finish_reason content_filter
	KindOversize   Kind = "reply too large"         // more bytes than Options.MaxReply
	KindCancelled  Kind = "cancelled"               // the caller's context ended first
)

// Error makes a Kind usable with errors.Is.
func (k Kind) Error() string { return string(k) }

// retryable reports whether the same request may do better in a moment. To ask
// twice does no harm but what it costs.
func (k Kind) retryable() bool {
	switch k {
	case KindConnection, KindTimeout, KindServer, KindRate, KindMalformed, KindEmpty:
		return true
	}
	return false
}

// hint says what to do about a kind.
func (k Kind) hint() string {
	switch k {
	case KindConnection, KindTimeout:
		return "is the endpoint up, and its address right?"
	case KindRate:
		return "ask for fewer at once"
	case KindAuth:
		return "is the key in its environment variable, and right?"
	case KindMissing:
		return "is the base URL right (it usually ends in /v1), and the model's name?"
	}
	return ""
}

// Error is a failed exchange with an endpoint.
type Error struct {
	Kind     Kind
	URL      string
	Status   int    // 0 if no status line came
	Words    string // what the endpoint said, shortened, the key taken out
	Attempts int    // made in all
	Err      error  // the cause below, if any

	wait time.Duration // that the endpoint asked for
}

// Error names the address, the kind and the endpoint's words, and what to do.
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
	if h := e.Kind.hint(); h != "" {
		b.WriteString(" (" + h + ")")
	}
	return b.String()
}

// Unwrap gives the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is this error's Kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// Hopeless reports whether every later request would fail alike, so that there
// is no point in playing on.
func (e *Error) Hopeless() bool {
	switch e.Kind {
	case KindAuth, KindQuota, KindMissing:
		return true
	}
	return false
}

// maxWords bounds how much of an endpoint's reply an error repeats.
const maxWords = 400

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

// retryAfter is how long a reply asks to wait: Retry-After in seconds or as a
// date (RFC 9110, 10.2.3), or retry-after-ms. 0 where it does not ask.
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
			now = date // the endpoint's clock set the time; ours may be another
		}
		return max(0, at.Sub(now))
	}
	return 0
}

// boundedDuration makes a duration of nanoseconds that a stranger sent.
func boundedDuration(ns float64) time.Duration {
	const year = float64(365 * 24 * time.Hour)
	if !(ns > 0) {
		return 0
	}
	return time.Duration(min(ns, year))
}
