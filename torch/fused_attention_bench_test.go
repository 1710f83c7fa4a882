package torch_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// cpuTime returns the CPU time of the process. It varies less than wall time on a busy machine.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure runs f b.N times and reports the CPU time of one call.
func measure(b *testing.B, s *torch.Scope, f func(s *torch.Scope)) {
	s.Do(f)
	b.ResetTimer()
	start := cpuTime(b)
	for range b.N {
		s.Do(f)
	}
	b.ReportMetric(float64(cpuTime(b)-start)/1e3/float64(b.N), "cpu-µs/op")
}

// BenchmarkAttentionCached measures chunks of new tokens of several sequences, as in the prefill of turns.
func BenchmarkAttentionCached(b *testing.B) {
	const seqs, size = 12, 32
	for _, shape := range [][5]int{{4, 2, 32, 44, 700}, {9, 3, 64, 44, 700}, {9, 3, 64, 512, 512}, {14, 2, 64, 8, 700}, {14, 2, 64, 1, 700}} {
		heads, kvHeads, dim, newTokens, length := shape[0], shape[1], shape[2], shape[3], shape[4]
		for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
			b.Run(fmt.Sprintf("heads=%d,%d/dim=%d/new=%d/context=%d/%v", heads, kvHeads, dim, newTokens, length, dt), func(b *testing.B) {
				torchtest.Run(b, func(s *torch.Scope) {
					c := torch.CachedSeqs{QOffsets: []int{0}}
					var ks, vs []torch.Tensor
					for i := range seqs {
						ks, vs = append(ks, s.RandN(uint64(i), length, kvHeads, dim)), append(vs, s.RandN(uint64(i+100), length, kvHeads, dim))
						c.Lens = append(c.Lens, length)
						c.QOffsets = append(c.QOffsets, (i+1)*newTokens)
					}
					p := fill(s, dt, size, ks, vs)
					c.Blocks = p.blocks
					q := s.RandN(7, seqs*newTokens, heads, dim).To(dt)
					measure(b, s, func(*torch.Scope) { torch.AttentionCached(q, p.k, p.v, c, 0.2) })
				})
			})
		}
	}
}

// BenchmarkAttentionPacked measures packed sequences: the forward pass alone, and the forward and backward passes.
func BenchmarkAttentionPacked(b *testing.B) {
	for _, shape := range [][5]int{{4, 2, 32, 12, 700}, {9, 3, 64, 2, 512}, {14, 2, 64, 4, 1024}} {
		heads, kvHeads, dim, seqs, length := shape[0], shape[1], shape[2], shape[3], shape[4]
		for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
			for _, grad := range []bool{false, true} {
				b.Run(fmt.Sprintf("heads=%d,%d/dim=%d/%d×%d/%v/grad=%v", heads, kvHeads, dim, seqs, length, dt, grad), func(b *testing.B) {
					torchtest.Run(b, func(s *torch.Scope) {
						offsets := []int{0}
						for i := range seqs {
							offsets = append(offsets, (i+1)*length)
						}
						n := seqs * length
						q, k, v := s.RandN(1, n, heads, dim).To(dt), s.RandN(2, n, kvHeads, dim).To(dt), s.RandN(3, n, kvHeads, dim).To(dt)
						w := s.RandN(4, n, heads, dim).To(dt)
						for _, t := range []torch.Tensor{q, k, v} {
							t.SetRequiresGrad(grad)
						}
						measure(b, s, func(s *torch.Scope) {
							y := torch.AttentionPacked(q, k, v, offsets, 0.2)
							if grad {
								y.Mul(w).Sum().Backward()
							}
						})
					})
				})
			}
		}
	}
}
