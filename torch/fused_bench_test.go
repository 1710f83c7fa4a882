package torch_test

import (
	"cmp"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// best measures the function that setup returns, on one thread. It also reports the fastest run,
// which varies less on a busy machine. bytes is the number of bytes that a run reads, or 0.
func best(b *testing.B, bytes int, setup func(s *torch.Scope) func(s *torch.Scope)) {
	b.Helper()
	defer torch.SetNumThreads(torch.NumThreads())
	torch.SetNumThreads(1)
	fastest := time.Duration(math.MaxInt64)
	torchtest.Run(b, func(s *torch.Scope) {
		f := setup(s)
		s.Do(f)
		for b.Loop() {
			start := time.Now()
			s.Do(f)
			fastest = min(fastest, time.Since(start))
		}
	})
	b.ReportMetric(float64(fastest.Microseconds())/1000, "best-ms")
	if bytes > 0 {
		b.ReportMetric(float64(bytes)/fastest.Seconds()/1e9, "best-GB/s")
	}
}

// BenchmarkLinearDecode reads a stack of weights as a decoding step does.
func BenchmarkLinearDecode(b *testing.B) {
	const layers, outs, k = 60, 1536, 576
	decode := func(b *testing.B, bytes, rows int, dt torch.DType, f func(w torch.Tensor) func(x torch.Tensor)) {
		best(b, layers*outs*k*bytes, func(s *torch.Scope) func(s *torch.Scope) {
			var products []func(x torch.Tensor)
			for range layers {
				products = append(products, f(s.Ones(dt, outs, k)))
			}
			x := s.RandN(1, rows, k).To(dt)
			return func(s *torch.Scope) {
				for _, product := range products {
					product(x)
				}
			}
		})
	}
	kinds := []struct {
		name  string
		bytes int // of a weight; 0: those of the type
		f     func(w torch.Tensor) func(x torch.Tensor)
	}{
		{"aten", 0, func(w torch.Tensor) func(x torch.Tensor) {
			return func(x torch.Tensor) { x.Linear(w, torch.Tensor{}) }
		}},
		{"skinny", 0, func(w torch.Tensor) func(x torch.Tensor) {
			return func(x torch.Tensor) { torch.LinearSkinny(x, w, torch.Tensor{}) }
		}},
		{"int8", 1, func(w torch.Tensor) func(x torch.Tensor) {
			q := []torch.Int8Weight{torch.QuantizeInt8(w)}
			return func(x torch.Tensor) { torch.LinearsInt8(x, q, nil) }
		}},
	}
	for _, dt := range []torch.DType{torch.BFloat16, torch.Float32} {
		for _, rows := range []int{1, 2, 4, 8, 16, 32, 64} {
			for _, kind := range kinds {
				b.Run(fmt.Sprintf("%v/rows=%d/%s", dt, rows, kind.name), func(b *testing.B) {
					decode(b, cmp.Or(kind.bytes, dt.Size()), rows, dt, kind.f)
				})
			}
		}
	}
}

// BenchmarkLinearTraining measures the forward and backward pass of a layer on 512 rows.
func BenchmarkLinearTraining(b *testing.B) {
	const rows, outs, k = 512, 1536, 576
	for _, dt := range []torch.DType{torch.BFloat16, torch.Float32} {
		b.Run(dt.String(), func(b *testing.B) {
			best(b, 0, func(s *torch.Scope) func(s *torch.Scope) {
				x, w := s.RandN(1, rows, k).To(dt), s.RandN(2, outs, k).To(dt)
				dy := s.RandN(3, rows, outs).To(dt)
				x.SetRequiresGrad(true)
				w.SetRequiresGrad(true)
				return func(*torch.Scope) { x.Linear(w, torch.Tensor{}).BackwardWith(dy) }
			})
		})
	}
}

// BenchmarkAttentionDecode measures the attention of ten layers with SmolLM2-135M's heads at a context of 800 tokens.
func BenchmarkAttentionDecode(b *testing.B) {
	const heads, own, dim, size, context, layers = 9, 3, 64, 16, 800, 10
	for _, dt := range []torch.DType{torch.BFloat16, torch.Float32} {
		for _, rows := range []int{1, 16} {
			b.Run(fmt.Sprintf("%v/rows=%d", dt, rows), func(b *testing.B) {
				best(b, layers*2*rows*context*own*dim*dt.Size(), func(s *torch.Scope) func(s *torch.Scope) {
					seqs := torch.CachedSeqs{QOffsets: []int{0}}
					for r := range rows {
						table := make([]int32, context/size)
						for i := range table {
							table[i] = int32(r*len(table) + i)
						}
						seqs.QOffsets = append(seqs.QOffsets, r+1)
						seqs.Lens = append(seqs.Lens, context)
						seqs.Blocks = append(seqs.Blocks, table)
					}
					var ks, vs []torch.Tensor
					for range layers {
						ks = append(ks, s.Ones(dt, rows*context/size, size, own, dim))
						vs = append(vs, s.Ones(dt, rows*context/size, size, own, dim))
					}
					q := s.RandN(1, rows, heads, dim).To(dt)
					return func(*torch.Scope) {
						for i := range ks {
							torch.AttentionCached(q, ks[i], vs[i], seqs, 0.125)
						}
					}
				})
			})
		}
	}
}

func BenchmarkSample(b *testing.B) {
	const rows, v = 16, 49152
	tests := []struct {
		name string
		row  torch.SampleRow
	}{
		{"plain", torch.SampleRow{Temperature: 1, TopP: 1}},
		{"greedy", torch.SampleRow{Temperature: 1, TopP: 1, Greedy: true}},
		{"top-p", torch.SampleRow{Temperature: 1, TopP: 0.95}},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			best(b, 0, func(s *torch.Scope) func(s *torch.Scope) {
				logits := s.RandN(1, rows, v).MulScalar(3)
				all := make([]torch.SampleRow, rows)
				position := uint64(0)
				return func(*torch.Scope) {
					for i := range all {
						position++
						all[i] = tt.row
						all[i].Position = position
					}
					torch.Sample(logits, all)
				}
			})
		})
	}
}

// BenchmarkTokenLogProbs compares TokenLogProbs with whole logits: the head of SmolLM2-135M over 512 tokens, forward and backward.
func BenchmarkTokenLogProbs(b *testing.B) {
	const n, d, v = 512, 576, 49152
	targets := make([]int64, n)
	for i := range targets {
		targets[i] = int64(i * 17 % v)
	}
	kinds := []struct {
		name string
		f    func(s *torch.Scope, h, w torch.Tensor) torch.Tensor
	}{
		{"fused", func(_ *torch.Scope, h, w torch.Tensor) torch.Tensor {
			logp, _ := torch.TokenLogProbs(h, w, torch.Tensor{}, targets, nil, 1, false)
			return logp
		}},
		{"whole", func(s *torch.Scope, h, w torch.Tensor) torch.Tensor {
			z := h.Linear(w, torch.Tensor{}).To(torch.Float32).LogSoftmax(-1)
			return z.Gather(1, s.Int64s(targets, n, 1))
		}},
	}
	for _, dt := range []torch.DType{torch.BFloat16, torch.Float32} {
		for _, kind := range kinds {
			b.Run(fmt.Sprintf("%v/%s", dt, kind.name), func(b *testing.B) {
				best(b, 0, func(s *torch.Scope) func(s *torch.Scope) {
					h, w := s.RandN(1, n, d).To(dt), s.RandN(2, v, d).MulScalar(1/math.Sqrt(d)).To(dt)
					h.SetRequiresGrad(true)
					w.SetRequiresGrad(true)
					return func(s *torch.Scope) {
						kind.f(s, h, w).Sum().Backward()
						h.ZeroGrad()
						w.ZeroGrad()
					}
				})
			})
		}
	}
}
