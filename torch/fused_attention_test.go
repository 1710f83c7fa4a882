package torch_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// attention computes causal attention of one sequence by generic operations: q [L,Hq,Dh], k, v [L,Hkv,Dh].
func attention(s *torch.Scope, q, k, v torch.Tensor, scale float64) torch.Tensor {
	n, heads, kvHeads := q.Size(0), q.Size(1), k.Size(1)
	repeat := func(t torch.Tensor) torch.Tensor {
		same := make([]int64, heads)
		for h := range same {
			same[h] = int64(h / (heads / kvHeads))
		}
		return t.IndexSelect(1, s.Int64s(same, heads)).Transpose(0, 1)
	}
	future := make([]bool, n*n)
	for i := range future {
		future[i] = i%n > i/n
	}
	score := q.Transpose(0, 1).MatMul(repeat(k).Transpose(1, 2)).MulScalar(scale)
	p := score.MaskedFill(s.Bools(future, n, n), math.Inf(-1)).LogSoftmax(-1).Exp()
	return p.MatMul(repeat(v)).Transpose(0, 1)
}

func TestAttentionPacked(t *testing.T) {
	offsets := []int{0, 3, 3, 4, 9}
	const scale = 0.4
	kernel := func(_ *torch.Scope, in []torch.Tensor) torch.Tensor {
		return torch.AttentionPacked(in[0], in[1], in[2], offsets, scale)
	}
	plain := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
		var parts []torch.Tensor
		for i, b := range offsets[:len(offsets)-1] {
			n := offsets[i+1] - b
			if n == 0 {
				continue
			}
			parts = append(parts, attention(s, in[0].Narrow(0, b, n), in[1].Narrow(0, b, n), in[2].Narrow(0, b, n), scale))
		}
		return torch.Cat(parts, 0)
	}
	inputs := func(kvHeads int) []torchtest.Input {
		return []torchtest.Input{torchtest.Rand(1, 9, 4, 8), torchtest.Rand(2, 9, kvHeads, 8), torchtest.Rand(3, 9, kvHeads, 8)}
	}
	for _, kvHeads := range []int{1, 2, 4} {
		t.Run(fmt.Sprintf("%d key heads", kvHeads), func(t *testing.T) {
			for dt, tol := range tolerances {
				torchtest.Same(t, dt, kernel, plain, tol, inputs(kvHeads)...)
			}
		})
	}
	torchtest.GradCheck(t, kernel, 1e-6, inputs(2)...)
}

// TestAttentionPackedAlone checks that a sequence alone and in a pack gives the same bits.
func TestAttentionPackedAlone(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		q, k, v := s.RandN(1, 300, 6, 16), s.RandN(2, 300, 2, 16), s.RandN(3, 300, 2, 16)
		offsets := []int{0, 40, 250, 251, 300}
		all := torch.AttentionPacked(q, k, v, offsets, 0.25)
		for i, b := range offsets[:len(offsets)-1] {
			n := offsets[i+1] - b
			alone := torch.AttentionPacked(q.Narrow(0, b, n), k.Narrow(0, b, n), v.Narrow(0, b, n), []int{0, n}, 0.25)
			torchtest.Close(t, alone, all.Narrow(0, b, n), 0)
		}
	})
}

// paged is a cache that holds some sequences in scattered blocks.
type paged struct {
	k, v   torch.Tensor
	blocks [][]int32
}

// fill writes sequence i's keys and values ks[i], vs[i] [L,Hkv,Dh] into a new cache.
func fill(s *torch.Scope, dt torch.DType, size int, ks, vs []torch.Tensor) paged {
	total := 1
	for _, k := range ks {
		total += (k.Size(0) + size - 1) / size
	}
	heads, dim := ks[0].Size(1), ks[0].Size(2)
	// Unwritten slots are NaN, so that reading one makes the result NaN.
	p := paged{k: s.Full(math.NaN(), dt, total, size, heads, dim), v: s.Full(math.NaN(), dt, total, size, heads, dim)}
	next := int32(total - 1) // blocks are assigned from the last to the first
	for i, k := range ks {
		n := k.Size(0)
		var table []int32
		for range (n + size - 1) / size {
			table = append(table, next)
			next--
		}
		slots := make([]int64, n)
		for j := range slots {
			slots[j] = int64(table[j/size])*int64(size) + int64(j%size)
		}
		torch.CacheWrite(p.k, p.v, k, vs[i], slots)
		p.blocks = append(p.blocks, table)
	}
	return p
}

func TestAttentionCached(t *testing.T) {
	tests := []struct {
		name      string
		newTokens []int // number of new tokens of each sequence
		lens      []int
	}{
		{"decode", []int{1, 1, 1}, []int{1, 130, 300}},
		{"short chunks", []int{3, 8, 1}, []int{3, 140, 5}},
		{"first prefill", []int{20}, []int{20}},
		{"chunked prefill", []int{20, 12}, []int{150, 13}},
		{"mixed", []int{1, 20, 2, 0}, []int{129, 45, 128, 7}},
		{"whole tiles", []int{64, 9}, []int{128, 64}},
		{"contexts of several parts", []int{1, 1, 2, 1}, []int{1100, 513, 512, 3}},
	}
	const heads, kvHeads, dim, size = 6, 2, 24, 16
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onEveryCPU(t, func(t *testing.T) {
				for _, cache := range []torch.DType{torch.Float32, torch.BFloat16} {
					for _, query := range []torch.DType{torch.Float32, torch.BFloat16} {
						cachedCase(t, tt.newTokens, tt.lens, cache, query, heads, kvHeads, dim, size)
					}
				}
			})
		})
	}
}

func cachedCase(t *testing.T, newTokens, lens []int, cache, query torch.DType, heads, kvHeads, dim, size int) {
	t.Helper()
	const scale = 0.3
	tol := 1e-5
	if query == torch.BFloat16 {
		tol = 0.02
	}
	torchtest.Run(t, func(s *torch.Scope) {
		seqs := torch.CachedSeqs{QOffsets: []int{0}, Lens: lens}
		var ks, vs, qs, want []torch.Tensor
		for i, n := range lens {
			seed := uint64(10 * i)
			q := s.RandN(seed, n, heads, dim).To(query)
			// The kernel and the reference start from values that the cache's dtype represents exactly.
			k, v := s.RandN(seed+1, n, kvHeads, dim).To(cache), s.RandN(seed+2, n, kvHeads, dim).To(cache)
			ks, vs = append(ks, k), append(vs, v)
			qs = append(qs, q.Narrow(0, n-newTokens[i], newTokens[i]))
			f := torch.Float32
			want = append(want, attention(s, q.To(f), k.To(f), v.To(f), scale).Narrow(0, n-newTokens[i], newTokens[i]))
			seqs.QOffsets = append(seqs.QOffsets, seqs.QOffsets[i]+newTokens[i])
		}
		p := fill(s, cache, size, ks, vs)
		seqs.Blocks = p.blocks
		got := torch.AttentionCached(torch.Cat(qs, 0), p.k, p.v, seqs, scale)
		if got.DType() != query {
			t.Errorf("the result has type %v, want %v", got.DType(), query)
		}
		torchtest.Close(t, got.To(torch.Float32), torch.Cat(want, 0), tol)
	})
}

// TestAttentionCachedIsBatchInvariant checks that one new token gives the same bits in every batch.
func TestAttentionCachedIsBatchInvariant(t *testing.T) {
	const heads, kvHeads, dim, size = 4, 2, 16, 8
	lens := []int{5, 400, 129, 64}
	torchtest.Run(t, func(s *torch.Scope) {
		var ks, vs []torch.Tensor
		for i, n := range lens {
			ks, vs = append(ks, s.RandN(uint64(i), n, kvHeads, dim)), append(vs, s.RandN(uint64(i)+50, n, kvHeads, dim))
		}
		p := fill(s, torch.BFloat16, size, ks, vs)
		q := s.RandN(99, len(lens), heads, dim)
		all := torch.AttentionCached(q, p.k, p.v, torch.CachedSeqs{QOffsets: []int{0, 1, 2, 3, 4}, Lens: lens, Blocks: p.blocks}, 0.25)
		for i, n := range lens {
			one := torch.CachedSeqs{QOffsets: []int{0, 1}, Lens: []int{n}, Blocks: p.blocks[i : i+1]}
			alone := torch.AttentionCached(q.Narrow(0, i, 1), p.k, p.v, one, 0.25)
			if !slices.Equal(alone.ToFloat32s(), all.Narrow(0, i, 1).ToFloat32s()) {
				t.Errorf("the results of sequence %d alone and in the batch differ", i)
			}
		}
	})
}

// TestAttentionCachedShapes covers many chunk lengths, numbers of heads and head dimensions. Some head dimensions are
// not a multiple of the vector length.
func TestAttentionCachedShapes(t *testing.T) {
	tests := []struct{ heads, kvHeads, dim, size int }{
		{2, 2, 32, 32}, {4, 2, 32, 16}, {9, 3, 64, 32}, {8, 2, 80, 5}, {2, 1, 128, 64}, {3, 1, 20, 7}, {70, 1, 8, 32},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d heads of %d, dimension %d", tt.heads, tt.kvHeads, tt.dim), func(t *testing.T) {
			for _, cache := range []torch.DType{torch.Float32, torch.BFloat16} {
				cachedCase(t, []int{9, 33, 200, 64, 1, 65}, []int{9, 97, 200, 127, 70, 131}, cache, torch.Float32, tt.heads, tt.kvHeads, tt.dim, tt.size)
			}
		})
	}
}

// TestAttentionCachedContexts covers single new tokens: contexts whose length is not a multiple of four or is near a part of 128 keys, and key
// heads with more than four query heads.
func TestAttentionCachedContexts(t *testing.T) {
	lens := []int{1, 2, 3, 4, 5, 127, 128, 131, 258}
	one := slices.Repeat([]int{1}, len(lens))
	for _, tt := range []struct{ heads, kvHeads, dim int }{{9, 3, 64}, {12, 2, 40}, {5, 1, 20}, {2, 1, 128}} {
		t.Run(fmt.Sprintf("%d heads of %d, dimension %d", tt.heads, tt.kvHeads, tt.dim), func(t *testing.T) {
			onEveryCPU(t, func(t *testing.T) {
				for _, cache := range []torch.DType{torch.Float32, torch.BFloat16} {
					for _, query := range []torch.DType{torch.Float32, torch.BFloat16} {
						cachedCase(t, one, lens, cache, query, tt.heads, tt.kvHeads, tt.dim, 16)
					}
				}
			})
		})
	}
}

// TestAttentionCachedChunksAreInvariant checks that longer chunks give the same bits in every
// batch, for every division of their context into chunks, and with any number of threads.
func TestAttentionCachedChunksAreInvariant(t *testing.T) {
	needKernels(t)
	const heads, kvHeads, dim, size = 6, 2, 32, 16
	lens := []int{300, 75, 128}
	offsets := []int{0, 300, 375, 503}
	sameOnThreads(t, func(s *torch.Scope) [][]float32 {
		var qs, ks, vs []torch.Tensor
		for i, n := range lens {
			seed := uint64(3 * i)
			qs = append(qs, s.RandN(seed, n, heads, dim))
			ks, vs = append(ks, s.RandN(seed+1, n, kvHeads, dim)), append(vs, s.RandN(seed+2, n, kvHeads, dim))
		}
		p := fill(s, torch.Float32, size, ks, vs)
		all := torch.AttentionCached(torch.Cat(qs, 0), p.k, p.v, torch.CachedSeqs{QOffsets: offsets, Lens: lens, Blocks: p.blocks}, 0.2)
		for seq, n := range lens {
			for _, chunk := range []int{n, 32} {
				for begin := 0; begin < n; begin += chunk {
					end := min(begin+chunk, n)
					c := torch.CachedSeqs{QOffsets: []int{0, end - begin}, Lens: []int{end}, Blocks: p.blocks[seq : seq+1]}
					got := torch.AttentionCached(qs[seq].Narrow(0, begin, end-begin), p.k, p.v, c, 0.2)
					if !slices.Equal(got.ToFloat32s(), all.Narrow(0, offsets[seq]+begin, end-begin).ToFloat32s()) {
						t.Errorf("the results of sequence %d, tokens %d to %d, alone and in the batch differ", seq, begin, end)
					}
				}
			}
		}
		return [][]float32{all.ToFloat32s()}
	})
}

// sameOnThreads checks that f returns the same bits with any number of threads.
func sameOnThreads(t *testing.T, f func(s *torch.Scope) [][]float32) {
	t.Helper()
	defer torch.SetNumThreads(torch.NumThreads())
	var want [][]float32
	for _, threads := range []int{1, 2, 3} {
		torch.SetNumThreads(threads) // takes effect at the next Run
		torchtest.Run(t, func(s *torch.Scope) {
			got := f(s)
			if want == nil {
				want = got
			}
			for i := range got {
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("result %d differs between 1 and %d threads", i, threads)
				}
			}
		})
	}
}

// TestAttentionPackedTiles compares values and gradients of sequences longer than a tile with generic operations.
func TestAttentionPackedTiles(t *testing.T) {
	offsets := []int{0, 70, 71, 265}
	const n, scale = 265, 0.2
	kernel := func(_ *torch.Scope, in []torch.Tensor) torch.Tensor {
		return torch.AttentionPacked(in[0], in[1], in[2], offsets, scale)
	}
	plain := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
		var parts []torch.Tensor
		for i, b := range offsets[:len(offsets)-1] {
			l := offsets[i+1] - b
			parts = append(parts, attention(s, in[0].Narrow(0, b, l), in[1].Narrow(0, b, l), in[2].Narrow(0, b, l), scale))
		}
		return torch.Cat(parts, 0)
	}
	for _, shape := range [][3]int{{2, 2, 32}, {4, 2, 20}, {3, 1, 64}, {8, 2, 80}, {1, 1, 128}} {
		heads, kvHeads, dim := shape[0], shape[1], shape[2]
		t.Run(fmt.Sprintf("%d heads of %d, dimension %d", heads, kvHeads, dim), func(t *testing.T) {
			onEveryCPU(t, func(t *testing.T) {
				for _, dt := range []torch.DType{torch.Float32, torch.Float64} {
					torchtest.Same(t, dt, kernel, plain, 10*tolerances[dt],
						torchtest.Rand(1, n, heads, dim), torchtest.Rand(2, n, kvHeads, dim), torchtest.Rand(3, n, kvHeads, dim))
				}
			})
		})
	}
}

// TestAttentionPackedGradientsAreInvariant checks that the gradients of a sequence have the same bits alone and in a
// pack, with any number of threads.
func TestAttentionPackedGradientsAreInvariant(t *testing.T) {
	const heads, kvHeads, dim, tokens = 4, 2, 32, 300
	offsets := []int{0, 40, 250, 251, tokens}
	grads := func(s *torch.Scope, begin, end int, offsets []int) [][]float32 {
		var in []torch.Tensor
		for i, h := range []int{heads, kvHeads, kvHeads} {
			in = append(in, s.RandN(uint64(i), tokens, h, dim).Narrow(0, begin, end-begin).Clone())
			in[i].SetRequiresGrad(true)
		}
		w := s.RandN(9, tokens, heads, dim).Narrow(0, begin, end-begin)
		torch.AttentionPacked(in[0], in[1], in[2], offsets, 0.25).Mul(w).Sum().Backward()
		var out [][]float32
		for _, x := range in {
			out = append(out, x.Grad().ToFloat32s())
		}
		return out
	}
	sameOnThreads(t, func(s *torch.Scope) [][]float32 {
		all := grads(s, 0, tokens, offsets)
		for i, b := range offsets[:len(offsets)-1] {
			e := offsets[i+1]
			for j, got := range grads(s, b, e, []int{0, e - b}) {
				width := len(all[j]) / tokens
				if !slices.Equal(got, all[j][b*width:e*width]) {
					t.Errorf("the gradients of sequence %d alone and in the pack differ in input %d", i, j)
				}
			}
		}
		return all
	})
}
