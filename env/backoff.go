package env

import (
	"context"
	"math/rand/v2"
	"time"
)

// maxBackoff is the longest pause between two attempts of one call.
const maxBackoff = 5 * time.Second

// jittered gives the pause after failed attempt n (from 1): base doubled each
// time up to maxBackoff, then scattered over its upper half, so that many
// clients that failed together do not come back together. Nothing a run
// records depends on it, hence the unseeded generator.
func jittered(base time.Duration, n int) time.Duration {
	d := base
	for i := 1; i < n && d < maxBackoff; i++ {
		d *= 2
	}
	d = min(d, maxBackoff)
	return d/2 + rand.N(d/2+1)
}

// sleep waits for d and reports whether it did, false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
