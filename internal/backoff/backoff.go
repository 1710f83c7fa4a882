// Package backoff computes the pauses between attempts of a failing call.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Delay returns the pause after failed attempt n: none for 0, base for 1, doubled
// with each further attempt up to limit, then drawn from the upper half of that
// interval, so that clients that failed together do not retry together. The
// generator is not seeded because no recorded result depends on the pause.
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

// Sleep waits for d and returns true, or returns false as soon as ctx ends.
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
