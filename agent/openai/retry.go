package openai

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter is how long a reply asks to wait: Retry-After in seconds or as a
// date (RFC 9110, 10.2.3), or retry-after-ms. 0 where it does not ask.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil {
		return span(ms * float64(time.Millisecond))
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return span(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil {
		if date, err := http.ParseTime(h.Get("Date")); err == nil {
			now = date // the endpoint's clock set the time; ours may be another
		}
		return max(0, at.Sub(now))
	}
	return 0
}

// span makes a duration of nanoseconds that a stranger sent.
func span(ns float64) time.Duration {
	const year = float64(365 * 24 * time.Hour)
	if !(ns > 0) {
		return 0
	}
	return time.Duration(min(ns, year))
}
