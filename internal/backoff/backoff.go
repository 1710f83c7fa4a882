// Package backoff computes the pauses between attempts of a failing call.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Delay returns the pause after failed attempt n. It is 0 if n is 0. Otherwise it is
// random between d/2 and d, where d is base for attempt 1 and doubles up to limit.
// The random value separates clients that fail at the same time. It has no seed,
// because no result depends on it.
func Delay(base, limit time.Duration, n int) time.Duration {
	if n < 1 {
		return 0
	}
	d := base
	for i := 1; i < n && d < limit; i++ {
		d *= 2
	}
	d = min(d, limit)
	return d/2 + rand.N(d/2+1)
}

// Sleep waits for d. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
