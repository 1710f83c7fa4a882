package serve

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// counts are counters since the start, and the gauge running.
type counts struct {
	running, done, failed, left, prompted, sampled atomic.Int64
}

// Stats are counters since the start of a Handler, and the gauges Running and Waiting.
type Stats struct {
	Requests      int64 // answered
	Failed        int64 // answered with an error
	Left          int64 // broken off, mostly by clients that left
	PromptTokens  int64 // of answered requests
	SampledTokens int64
	Running       int64 // requests that are being answered
	Waiting       int64 // requests that wait for their turn
}

// Stats returns the current counters.
func (h *Handler) Stats() Stats {
	c := &h.counts
	return Stats{
		Requests: c.done.Load(), Failed: c.failed.Load(), Left: c.left.Load(), PromptTokens: c.prompted.Load(),
		SampledTokens: c.sampled.Load(), Running: c.running.Load(), Waiting: h.waiting.Load(),
	}
}

// Report logs the requests and the tokens per second of every interval in which something
// happened, until ctx ends.
func (h *Handler) Report(ctx context.Context, interval time.Duration) {
	t := time.NewTicker(interval)
	defer t.Stop()
	last := h.Stats()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := h.Stats()
		if now == last && now.Running == 0 {
			continue
		}
		rate := func(a, b int64) float64 { return math.Round(float64(b-a)/interval.Seconds()*10) / 10 }
		h.o.Log.Info(fmt.Sprintf("%d requests answered", now.Requests-last.Requests), "running", now.Running, "waiting", now.Waiting,
			"failed", now.Failed-last.Failed, "left", now.Left-last.Left,
			"tokens_per_s", rate(last.SampledTokens, now.SampledTokens), "prompt_tokens_per_s", rate(last.PromptTokens, now.PromptTokens))
		last = now
	}
}
