package torch_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestFusedErrors(t *testing.T) {
	tests := []struct {
		name string
		f    func(s *torch.Scope)
	}{
		{"RMSNorm with a short weight", func(s *torch.Scope) {
			torch.RMSNorm(s.Ones(torch.Float32, 2, 4), s.Ones(torch.Float32, 3), 1e-6)
		}},
		{"RoPE with an odd head", func(s *torch.Scope) {
			rope(s.Ones(torch.Float32, 2, 1, 3), s.Ones(torch.Float32, 2, 1), s.Ones(torch.Float32, 2, 1))
		}},
		{"RoPE with angles of too few tokens", func(s *torch.Scope) {
			rope(s.Ones(torch.Float32, 2, 1, 4), s.Ones(torch.Float32, 1, 2), s.Ones(torch.Float32, 1, 2))
		}},
		{"SwiGLU of unlike tensors", func(s *torch.Scope) {
			torch.SwiGLU(s.Ones(torch.Float32, 2), s.Ones(torch.Float32, 3))
		}},
		{"packed attention with heads that do not divide", func(s *torch.Scope) {
			torch.AttentionPacked(s.Ones(torch.Float32, 2, 3, 4), s.Ones(torch.Float32, 2, 2, 4), s.Ones(torch.Float32, 2, 2, 4), []int{0, 2}, 1)
		}},
		{"packed attention with offsets that end early", func(s *torch.Scope) {
			torch.AttentionPacked(s.Ones(torch.Float32, 3, 1, 4), s.Ones(torch.Float32, 3, 1, 4), s.Ones(torch.Float32, 3, 1, 4), []int{0, 2}, 1)
		}},
		{"shared attention with a parent of a parent", func(s *torch.Scope) {
			x := s.Ones(torch.Float32, 3, 1, 4)
			torch.AttentionShared(x, x, x, []int{0, 1, 2, 3}, []int{-1, 0, 1}, 1)
		}},
		{"shared attention with a parent that comes later", func(s *torch.Scope) {
			x := s.Ones(torch.Float32, 3, 1, 4)
			torch.AttentionShared(x, x, x, []int{0, 1, 3}, []int{1, -1}, 1)
		}},
		{"shared attention with too few parents", func(s *torch.Scope) {
			x := s.Ones(torch.Float32, 3, 1, 4)
			torch.AttentionShared(x, x, x, []int{0, 1, 3}, []int{-1}, 1)
		}},
		{"a cache slot outside the cache", func(s *torch.Scope) {
			c, k := s.Zeros(torch.Float32, 2, 4, 1, 8), s.Zeros(torch.Float32, 1, 1, 8)
			torch.CacheWrite(c, c, k, k, []int64{8})
		}},
		{"a context longer than its blocks", func(s *torch.Scope) {
			c, q := s.Zeros(torch.Float32, 2, 4, 1, 8), s.Zeros(torch.Float32, 1, 1, 8)
			torch.AttentionCached(q, c, c, torch.CachedSeqs{QOffsets: []int{0, 1}, Lens: []int{5}, Blocks: [][]int32{{0}}}, 1)
		}},
		{"a block outside the cache", func(s *torch.Scope) {
			c, q := s.Zeros(torch.Float32, 2, 4, 1, 8), s.Zeros(torch.Float32, 1, 1, 8)
			torch.AttentionCached(q, c, c, torch.CachedSeqs{QOffsets: []int{0, 1}, Lens: []int{3}, Blocks: [][]int32{{2}}}, 1)
		}},
		{"gradients through a cache", func(s *torch.Scope) {
			c, q := s.Zeros(torch.Float32, 2, 4, 1, 8), s.Zeros(torch.Float32, 1, 1, 8)
			q.SetRequiresGrad(true)
			torch.AttentionCached(q, c, c, torch.CachedSeqs{QOffsets: []int{0, 1}, Lens: []int{3}, Blocks: [][]int32{{0}}}, 1)
		}},
		{"a target outside the vocabulary", func(s *torch.Scope) {
			torch.TokenLogProbs(s.Ones(torch.Float32, 1, 4), s.Ones(torch.Float32, 3, 4), torch.Tensor{}, []int64{3}, nil, 1, false)
		}},
		{"a temperature of 0", func(s *torch.Scope) {
			torch.TokenLogProbs(s.Ones(torch.Float32, 1, 4), s.Ones(torch.Float32, 3, 4), torch.Tensor{}, []int64{1}, nil, 0, false)
		}},
		{"too many rows for the skinny linear", func(s *torch.Scope) {
			torch.LinearSkinny(s.Ones(torch.Float32, torch.SkinnyRows+1, 4), s.Ones(torch.Float32, 3, 4), torch.Tensor{})
		}},
		{"gradients through the skinny linear", func(s *torch.Scope) {
			w := s.Ones(torch.Float32, 3, 4)
			w.SetRequiresGrad(true)
			torch.LinearSkinny(s.Ones(torch.Float32, 1, 4), w, torch.Tensor{})
		}},
		{"AdamW at step 0", func(s *torch.Scope) {
			x := []torch.Tensor{s.Ones(torch.Float32, 2)}
			torch.AdamWStep(x, x, x, x, nil, torch.AdamWOptions{})
		}},
		{"AdamW of bfloat16 masters", func(s *torch.Scope) {
			x := []torch.Tensor{s.Ones(torch.BFloat16, 2)}
			torch.AdamWStep(x, x, x, x, nil, torch.AdamWOptions{Step: 1})
		}},
		{"sampling a NaN", func(s *torch.Scope) {
			torch.Sample(s.Float32s([]float32{0, float32(math.NaN()), 1}, 1, 3), []torch.SampleRow{{Temperature: 1, TopP: 1}})
		}},
		{"sampling an infinity", func(s *torch.Scope) {
			torch.Sample(s.Float32s([]float32{0, float32(math.Inf(1)), 1}, 1, 3), []torch.SampleRow{{Temperature: 1, TopP: 1}})
		}},
		{"sampling without a finite logit", func(s *torch.Scope) {
			torch.Sample(s.Full(math.Inf(-1), torch.Float32, 1, 3), []torch.SampleRow{{Temperature: 1, TopP: 1}})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var e *torch.Error
			if err := torchtest.RunErr(t, tt.f); !errors.As(err, &e) {
				t.Fatalf("got %v, want a *torch.Error", err)
			}
			if strings.Contains(e.Msg, "Exception raised from") {
				t.Errorf("the message has a C++ backtrace: %s", e.Msg)
			}
		})
	}
}
