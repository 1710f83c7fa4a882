package torch_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// sharing is a pack of sequences, some of which continue a parent.
type sharing struct{ offsets, parents []int }

func (p sharing) tokens() int { return p.offsets[len(p.offsets)-1] }

// copies calls f for each sequence: the parent's tokens, if any, and its own.
func (p sharing) copies(f func(i int, parts [][2]int)) {
	for i, parent := range p.parents {
		var parts [][2]int
		if parent >= 0 {
			parts = append(parts, [2]int{p.offsets[parent], p.offsets[parent+1]})
		}
		f(i, append(parts, [2]int{p.offsets[i], p.offsets[i+1]}))
	}
}

// alone computes each sequence after a copy of its parent with the function attend, and drops the parent's results.
func (p sharing) alone(in []torch.Tensor, attend func(q, k, v torch.Tensor) torch.Tensor) torch.Tensor {
	var results []torch.Tensor
	p.copies(func(_ int, parts [][2]int) {
		join := func(x torch.Tensor) torch.Tensor {
			var list []torch.Tensor
			for _, part := range parts {
				list = append(list, x.Narrow(0, part[0], part[1]-part[0]))
			}
			return torch.Cat(list, 0)
		}
		q := join(in[0])
		if own := parts[len(parts)-1]; own[1] > own[0] {
			n := own[1] - own[0]
			results = append(results, attend(q, join(in[1]), join(in[2])).Narrow(0, q.Size(0)-n, n))
		}
	})
	return torch.Cat(results, 0)
}

var sharings = map[string]sharing{
	"short":            {[]int{0, 4, 6, 9, 10}, []int{-1, 0, 0, -1}},
	"two families":     {[]int{0, 70, 73, 143, 163, 263, 264, 264, 270}, []int{-1, 0, 0, -1, -1, 4, 4, 4}},
	"apart":            {[]int{0, 64, 96, 104, 105, 205}, []int{-1, -1, 0, 1, 0}},
	"an empty parent":  {[]int{0, 0, 5, 12}, []int{-1, 0, 0}},
	"without a parent": {[]int{0, 3, 9}, []int{-1, -1}},
}

// TestAttentionShared compares values and gradients with those of sequences that have copies of their parents.
func TestAttentionShared(t *testing.T) {
	const scale = 0.3
	for name, p := range sharings {
		kernel := func(_ *torch.Scope, in []torch.Tensor) torch.Tensor {
			return torch.AttentionShared(in[0], in[1], in[2], p.offsets, p.parents, scale)
		}
		plain := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
			return p.alone(in, func(q, k, v torch.Tensor) torch.Tensor { return attention(s, q, k, v, scale) })
		}
		inputs := func(heads, kvHeads, dim int) []torchtest.Input {
			n := p.tokens()
			return []torchtest.Input{torchtest.Rand(1, n, heads, dim), torchtest.Rand(2, n, kvHeads, dim), torchtest.Rand(3, n, kvHeads, dim)}
		}
		for _, shape := range [][3]int{{4, 2, 8}, {3, 1, 20}, {2, 2, 64}} {
			t.Run(fmt.Sprintf("%s, %d heads of %d", name, shape[0], shape[2]), func(t *testing.T) {
				onEveryCPU(t, func(t *testing.T) {
					for dt, tol := range tolerances {
						torchtest.Same(t, dt, kernel, plain, 10*tol, inputs(shape[0], shape[1], shape[2])...)
					}
				})
			})
		}
		if name == "short" {
			torchtest.GradCheck(t, kernel, 1e-6, inputs(4, 2, 8)...)
		}
	}
}

// TestAttentionSharedWithoutKernels compares the computation with ATen's operations.
func TestAttentionSharedWithoutKernels(t *testing.T) {
	best := torch.CPULevel()
	torch.LimitCPULevel(-1)
	defer torch.LimitCPULevel(best)
	TestAttentionShared(t)
}

// TestAttentionSharedBits checks that results have the bits of sequences with copies of their parents.
func TestAttentionSharedBits(t *testing.T) {
	needKernels(t)
	torchtest.Run(t, func(s *torch.Scope) {
		for name, p := range sharings {
			n := p.tokens()
			in := []torch.Tensor{s.RandN(1, n, 6, 16), s.RandN(2, n, 2, 16), s.RandN(3, n, 2, 16)}
			got := torch.AttentionShared(in[0], in[1], in[2], p.offsets, p.parents, 0.25)
			want := p.alone(in, func(q, k, v torch.Tensor) torch.Tensor {
				return torch.AttentionPacked(q, k, v, []int{0, q.Size(0)}, 0.25)
			})
			if !slices.Equal(got.ToFloat32s(), want.ToFloat32s()) {
				t.Errorf("%s: the results differ", name)
			}
		}
	})
}

// TestAttentionSharedGradientsAreInvariant checks that gradients have the same bits with any number of threads.
func TestAttentionSharedGradientsAreInvariant(t *testing.T) {
	p := sharings["two families"]
	sameOnThreads(t, func(s *torch.Scope) [][]float32 {
		var in []torch.Tensor
		for i, h := range []int{4, 2, 2} {
			in = append(in, s.RandN(uint64(i), p.tokens(), h, 32))
			in[i].SetRequiresGrad(true)
		}
		torch.AttentionShared(in[0], in[1], in[2], p.offsets, p.parents, 0.25).Mul(s.RandN(9, p.tokens(), 4, 32)).Sum().Backward()
		var out [][]float32
		for _, x := range in {
			out = append(out, x.Grad().ToFloat32s())
		}
		return out
	})
}
