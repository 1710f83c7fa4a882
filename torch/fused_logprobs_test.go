package torch_test

import (
	"math"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// logProbs computes the result of TokenLogProbs from the whole logits: [N,2], log-probs and entropies.
func logProbs(s *torch.Scope, hidden, weight, bias torch.Tensor, targets []int64, temperature float64) torch.Tensor {
	z := hidden.Linear(weight, bias).MulScalar(1 / temperature).LogSoftmax(-1)
	ids, keep := make([]int64, len(targets)), make([]float64, len(targets))
	for i, y := range targets {
		if y >= 0 {
			ids[i], keep[i] = y, 1
		}
	}
	n := len(targets)
	logp := z.Gather(1, s.Int64s(ids, n, 1))
	entropy := z.Exp().Mul(z).SumDim(-1, true).Neg()
	return torch.Cat([]torch.Tensor{logp, entropy}, 1).Mul(s.Float64s(keep, n, 1))
}

func TestTokenLogProbs(t *testing.T) {
	targets := []int64{3, -1, 0, 18, -100, 7}
	const temperature = 0.7
	kernel := func(_ *torch.Scope, in []torch.Tensor) torch.Tensor {
		var bias torch.Tensor
		if len(in) > 2 {
			bias = in[2]
		}
		logp, entropy := torch.TokenLogProbs(in[0], in[1], bias, targets, nil, temperature, true)
		return torch.Stack([]torch.Tensor{logp, entropy}, 1)
	}
	plain := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
		var bias torch.Tensor
		if len(in) > 2 {
			bias = in[2]
		}
		return logProbs(s, in[0], in[1], bias, targets, temperature)
	}
	hidden, weight, bias := torchtest.Rand(1, 6, 5), torchtest.RandIn(2, -2, 2, 19, 5), torchtest.Rand(3, 19)
	onEveryCPU(t, func(t *testing.T) {
		torchtest.GradCheck(t, kernel, 1e-6, hidden, weight)
		torchtest.GradCheck(t, kernel, 1e-6, hidden, weight, bias)
		for dt, tol := range tolerances {
			t.Run(dt.String(), func(t *testing.T) {
				torchtest.Same(t, dt, kernel, plain, 2*tol, hidden, weight)
				torchtest.Same(t, dt, kernel, plain, 2*tol, hidden, weight, bias)
			})
		}
	})
	t.Run("no target at all", func(t *testing.T) {
		targets = []int64{-1, -1, -1, -1, -1, -1}
		torchtest.Same(t, torch.Float32, kernel, plain, 0, hidden, weight)
	})
}

// TestTokenLogProbsChunks uses a vocabulary that needs several chunks of rows and several blocks of the sums.
func TestTokenLogProbsChunks(t *testing.T) {
	const n, d, v = 200, 4, 40000
	targets := make([]int64, n)
	for i := range targets {
		targets[i] = int64(i * 131 % v)
	}
	kernel := func(_ *torch.Scope, in []torch.Tensor) torch.Tensor {
		logp, entropy := torch.TokenLogProbs(in[0], in[1], torch.Tensor{}, targets, nil, 1, true)
		return torch.Stack([]torch.Tensor{logp, entropy}, 1)
	}
	plain := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
		return logProbs(s, in[0], in[1], torch.Tensor{}, targets, 1)
	}
	torchtest.Same(t, torch.Float32, kernel, plain, 2e-5, torchtest.RandIn(1, -4, 4, n, d), torchtest.Rand(2, v, d))
}

// TestTokenLogProbsOfBFloat16 checks that log-probs and gradients of bfloat16 operands are computed from float32
// logits, as in sampling; only the gradients are rounded. The logits reach 50, where bfloat16 has steps of 0.25.
func TestTokenLogProbsOfBFloat16(t *testing.T) {
	const n, d, v = 40, 64, 5000 // more than one block of the vocabulary
	targets := make([]int64, n)
	for i := range targets {
		targets[i] = int64(i * 131 % v)
	}
	results := func(s *torch.Scope, dt torch.DType) (logp, dh, dw torch.Tensor) {
		h := s.RandN(1, n, d).To(torch.BFloat16).To(dt)
		w := s.RandN(2, v, d).MulScalar(1.5).To(torch.BFloat16).To(dt)
		h.SetRequiresGrad(true)
		w.SetRequiresGrad(true)
		logp, _ = torch.TokenLogProbs(h, w, torch.Tensor{}, targets, nil, 1, false)
		logp.Sum().Backward()
		return logp.Detach(), h.Grad().To(torch.Float32), w.Grad().To(torch.Float32)
	}
	onEveryCPU(t, func(t *testing.T) {
		torchtest.Run(t, func(s *torch.Scope) {
			want, wantH, wantW := results(s, torch.Float32)
			got, gotH, gotW := results(s, torch.BFloat16)
			torchtest.Close(t, got, want, 1e-4)
			torchtest.Close(t, gotH, wantH, 0.03)
			torchtest.Close(t, gotW, wantW, 0.03)
		})
	})
}

// TestTokenLogProbsOfKeptTokens checks that log-probs, entropies and gradients over kept tokens equal the results of a
// model with only these tokens in its vocabulary.
func TestTokenLogProbsOfKeptTokens(t *testing.T) {
	const v = 19
	targets := []int64{3, -1, 0, 18, 5, 7}
	kept := [][]int32{{1, 3, 4, 10}, {2}, nil, {0, 18}, {5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}}
	const temperature = 0.7
	kernel := func(_ *torch.Scope, in []torch.Tensor) torch.Tensor {
		logp, entropy := torch.TokenLogProbs(in[0], in[1], torch.Tensor{}, targets, kept, temperature, true)
		return torch.Stack([]torch.Tensor{logp, entropy}, 1)
	}
	plain := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
		var rows []torch.Tensor
		for i, list := range kept {
			weight, target := in[1], targets[i]
			if list != nil && target >= 0 {
				ids := make([]int64, len(list))
				for j, id := range list {
					ids[j] = int64(id)
					if ids[j] == targets[i] {
						target = int64(j)
					}
				}
				weight = weight.IndexSelect(0, s.Int64s(ids, len(ids)))
			}
			rows = append(rows, logProbs(s, in[0].Narrow(0, i, 1), weight, torch.Tensor{}, []int64{target}, temperature))
		}
		return torch.Cat(rows, 0)
	}
	hidden, weight := torchtest.Rand(1, 6, 5), torchtest.RandIn(2, -2, 2, v, 5)
	onEveryCPU(t, func(t *testing.T) {
		torchtest.GradCheck(t, kernel, 1e-6, hidden, weight)
		for dt, tol := range tolerances {
			t.Run(dt.String(), func(t *testing.T) { torchtest.Same(t, dt, kernel, plain, 2*tol, hidden, weight) })
		}
	})
}

func TestTokenLogProbsWithoutEntropy(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		h, w := s.RandN(1, 3, 4), s.RandN(2, 9, 4)
		w.SetRequiresGrad(true)
		logp, entropy := torch.TokenLogProbs(h, w, torch.Tensor{}, []int64{1, 2, 3}, nil, 1, false)
		if !entropy.None() {
			t.Errorf("entropy is %v, want the zero Tensor", entropy)
		}
		logp.Sum().Backward()
		if !w.Grad().AllFinite() {
			t.Error("the gradient of the weight is not finite")
		}
	})
}

// TestTokenLogProbsValues checks the numbers in the last line of spec 12.2, and logits of -inf, as in a masked vocabulary.
func TestTokenLogProbsValues(t *testing.T) {
	inf := math.Inf(-1)
	tests := []struct {
		name          string
		logits        []float64
		target        int64
		logp, entropy float64
	}{
		{"[1,2,3]", []float64{1, 2, 3}, 2, -.407606, .832396},
		{"[0,0,0]", []float64{0, 0, 0}, 0, -1.098612, 1.098612},
		{"a token of probability 0", []float64{0, inf, 0}, 0, -math.Ln2, math.Ln2},
		{"only one possible", []float64{inf, 5, inf}, 1, 0, 0},
		{"large", []float64{1000, 999, -1000}, 1, -1.313262, .582203},
	}
	onEveryCPU(t, func(t *testing.T) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				torchtest.Run(t, func(s *torch.Scope) {
					// The bias holds the logits; the hidden states are 0.
					h, w := s.Zeros(torch.Float32, 1, 2), s.Ones(torch.Float32, 3, 2)
					b := s.Float64s(tt.logits, 3).To(torch.Float32)
					b.SetRequiresGrad(true)
					logp, entropy := torch.TokenLogProbs(h, w, b, []int64{tt.target}, nil, 1, true)
					torchtest.Values(t, logp, 1e-6, tt.logp)
					torchtest.Values(t, entropy, 1e-6, tt.entropy)
					logp.Add(entropy).Sum().Backward()
					if g := b.Grad(); !g.AllFinite() {
						t.Errorf("gradient %v is not finite", g.ToFloat64s())
					}
				})
			})
		}
	})
}
