package main

import (
	"context"
	"slices"
	"time"

	"github.com/openmanus/openmanus/torch"
)

// Machine has the rates that bound every job: of large matrix products, and of reading memory.
type Machine struct {
	GFLOPs    float64 `json:"gflops"` // of matrix products in the run's type, 1e9 operations per second
	GBPerSec  float64 `json:"gb_per_s"`
	dtype     torch.DType
	gflops    []float64 // of every probe
	bandwidth []float64
}

const (
	probeSide  = 2048      // rows and columns of a matrix of the probe
	probeBytes = 256 << 20 // read by the probe: more than the caches hold
	probeRuns  = 3         // repeated products and reads of a probe, of which the fastest counts
)

// probe measures both rates once more. The rates of the machine are the medians of all probes. A probe is as close in time to a job as the
// peers' runs, so that other load on the machine affects both.
func (m *Machine) probe(ctx context.Context, t *torch.Thread) error {
	return torch.Run(ctx, t, func(s *torch.Scope) error {
		var flops, bytes float64
		s.NoGrad(func() {
			x, w := s.RandN(1, probeSide, probeSide).To(m.dtype), s.RandN(2, probeSide, probeSide).To(m.dtype)
			product := fastestOf(func() { s.Do(func(*torch.Scope) { x.Linear(w, torch.Tensor{}) }) })
			flops = 2 * probeSide * probeSide * probeSide / product.Seconds()
			long := s.Ones(torch.Float32, probeBytes/4)
			read := fastestOf(func() { s.Do(func(*torch.Scope) { long.Sum() }) })
			bytes = probeBytes / read.Seconds()
		})
		m.gflops, m.bandwidth = append(m.gflops, flops/1e9), append(m.bandwidth, bytes/1e9)
		m.GFLOPs, m.GBPerSec = median(m.gflops), median(m.bandwidth)
		return nil
	})
}

// fastestOf runs f probeRuns times and returns the time of the fastest run.
func fastestOf(f func()) time.Duration {
	var took []time.Duration
	for range probeRuns {
		began := time.Now()
		f()
		took = append(took, time.Since(began))
	}
	return slices.Min(took)
}

// median returns the middle value, of an even number of values the mean of both.
func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	n := len(xs)
	return (xs[(n-1)/2] + xs[n/2]) / 2
}
