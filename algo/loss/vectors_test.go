package loss

import (
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestMain(m *testing.M) {
	torch.SetNumThreads(1)
	torchtest.Main(m)
}

// The sampled tokens of the inputs of spec 12.
var (
	specMask = []bool{true, true, false, true, true, true, true, true, true, false, true, false, false, true, true, true, true, true, false, false}
	specLens = []int{4, 4, 3, 3}
	specOld  = inMask(-1, -2, -.5, -.1, -3, -.7, -.6, -.5, -.4, -.3, -2, -2, -2, -2, -2, -.2, -.4, -.6, -.8, -1)
	specNew  = inMask(-.9, -2.2, -.5, -.2, -2.5, -.7, -.2, -.6, -.4, -.3, -1.5, -2, -2, -2.5, -2.1, -.5, -.4, -.3, -.8, -1)
	specAdv  = inMask(1, 1, 1, 1, 1, -1, -1, -1, -1, -1, .5, .5, .5, .5, .5, -2, -2, -2, -2, -2)
)

func inMask(x ...float64) []float64 {
	var out []float64
	for i, v := range x {
		if specMask[i] {
			out = append(out, v)
		}
	}
	return out
}

func clipHigher() Options {
	return Options{Params: registry.Values{
		"clip_ratio_low": .2, "clip_ratio_high": .28, "clip_ratio_c": 3.0, "tau_pos": 1.0, "tau_neg": 1.05,
		"kl_cov_ratio": .1, "ppo_kl_coef": .1,
	}}
}

func choose(name string, logp, old, adv []float64, o Options) []bool {
	p, _ := Policies.Lookup(name)
	if p.Choose == nil {
		return nil
	}
	tokens := make([]Token, len(logp))
	for i := range tokens {
		tokens[i] = Token{LogP: logp[i], Old: old[i], Adv: adv[i]}
	}
	return p.Choose(tokens, o, 5)
}

// TestPolicyVectors compares policy losses and their statistics with the numbers of spec 12.2.
func TestPolicyVectors(t *testing.T) {
	raised := slices.Clone(specOld)
	for i := 11; i < 14; i++ {
		raised[i] += 1.5
	}
	both, plain := clipHigher(), clipHigher()
	both.Params["clip_ratio_high"], plain.Params["clip_ratio_high"], plain.Params["clip_ratio_c"] = .2, .2, 0.0
	for _, c := range []struct {
		name, loss, agg       string
		logp                  []float64
		o                     Options
		want, clip, lower, kl float64
	}{
		{"one bound, no dual clip", "vanilla", TokenMean, specNew, plain, .379425, .214286, 0, -.035714},
		{"vanilla", "vanilla", TokenMean, specNew, clipHigher(), .370854, .214286, 0, -.035714},
		{"vanilla", "vanilla", SeqMeanTokenSum, specNew, clipHigher(), 1.297989, .214286, 0, -.035714},
		{"vanilla", "vanilla", SeqMeanTokenMean, specNew, clipHigher(), .426665, .214286, 0, -.035714},
		{"vanilla", "vanilla", SeqSumNorm, specNew, clipHigher(), .259598, .214286, 0, -.035714},
		{"dual clip", "vanilla", TokenMean, raised, clipHigher(), 1.178571, 0, .214286, -.321429},
		{"gspo", "gspo", SeqMeanTokenMean, specNew, clipHigher(), .379098, 0, 0, -.035714},
		{"sapo", "sapo", SeqMeanTokenMean, specNew, clipHigher(), .682955, 0, 0, -.035714},
		{"gpg", "gpg", TokenMean, specNew, clipHigher(), .325, 0, 0, -.035714},
		{"reinforce", "reinforce", TokenMean, specNew, clipHigher(), .325, 0, 0, -.035714},
		{"cispo", "cispo", TokenMean, specNew, clipHigher(), .344286, .428571, 0, -.035714},
		{"geo_mean", "geo_mean", SeqMeanTokenMean, specNew, clipHigher(), .419015, .285714, .214286, -.035714},
		{"kl_cov", "kl_cov", TokenMean, specNew, clipHigher(), .323608, 0, 0, .221429},
		{"bypass_mode", "bypass_mode", TokenMean, specNew, clipHigher(), .370854, .214286, 0, -.035714},
	} {
		t.Run(c.name+" "+c.agg, func(t *testing.T) {
			torchtest.Run(t, func(s *torch.Scope) {
				l, sums := token(t, s, c.loss, c.logp, specOld, specAdv, specLens, c.o)
				torchtest.Values(t, l.Mul(weights(t, s, c.agg, specLens, 5)).Sum(), 1e-5, c.want)
				for _, x := range [][2]float64{{valueOf(sums.ClipFrac) / 14, c.clip}, {valueOf(sums.ClipFracLower) / 14, c.lower}, {valueOf(sums.PPOKL) / 14, c.kl}} {
					if !(math.Abs(x[0]-x[1]) <= 1e-5) {
						t.Errorf("a mean over 14 tokens is %g, want %g of the means %g, %g, %g", x[0], x[1], c.clip, c.lower, c.kl)
					}
				}
			})
		})
	}
}

// valueOf returns the only element of t, or 0 for the zero Tensor.
func valueOf(t torch.Tensor) float64 {
	if t.None() {
		return 0
	}
	return t.Item()
}

func token(t *testing.T, s *torch.Scope, name string, logp, old, adv []float64, lens []int, o Options) (torch.Tensor, Sums) {
	t.Helper()
	p, err := Policies.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	n := len(logp)
	return p.Loss(s, Batch{
		LogP: s.Float64s(logp, n), Old: s.Float64s(old, n), Adv: s.Float64s(adv, n), Lens: lens, Chosen: choose(name, logp, old, adv, o),
	}, o)
}

// weights returns the factor of every token of whole rows in an aggregation.
func weights(t *testing.T, s *torch.Scope, agg string, lens []int, scale float64) torch.Tensor {
	t.Helper()
	a, err := Aggregations.Lookup(agg)
	if err != nil {
		t.Fatal(err)
	}
	var w []float64
	of := a(lens, scale)
	for _, n := range lens {
		for range n {
			w = append(w, of(n))
		}
	}
	return s.Float64s(w, len(w))
}

// TestAggregations compares the aggregations with spec 12.2: the matrix 0, .1, …, 1.9, and a row
// without a token in the loss.
func TestAggregations(t *testing.T) {
	var values []float64
	for i, m := range specMask {
		if m {
			values = append(values, float64(i)/10)
		}
	}
	for agg, want := range map[string]float64{TokenMean: .85, SeqMeanTokenSum: 2.975, SeqMeanTokenMean: .920833, SeqSumNorm: .595, TokenSum: 11.9} {
		for _, lens := range [][]int{specLens, {4, 0, 4, 3, 3}} {
			torchtest.Run(t, func(s *torch.Scope) {
				torchtest.Values(t, s.Float64s(values, 14).Mul(weights(t, s, agg, lens, 5)).Sum(), 1e-6, want)
			})
		}
	}
}

// TestAggregationsAreMeans checks that the loss does not change if every episode is twice in the
// mini-batch, so mini_batch_size does not scale the gradient. The exception is token-sum.
func TestAggregationsAreMeans(t *testing.T) {
	for _, agg := range Aggregations.Names() {
		lookup, err := Aggregations.Lookup(agg)
		if err != nil {
			t.Fatal(err)
		}
		sum := func(lens []int) float64 {
			total, weight := 0.0, lookup(lens, 5)
			for _, n := range lens {
				if n > 0 {
					total += float64(n) * weight(n)
				}
			}
			return total
		}
		once, twice := sum([]int{4, 0, 3}), sum([]int{4, 0, 3, 4, 0, 3})
		if agg == TokenSum {
			once *= 2
		}
		if math.Abs(once-twice) > 1e-12 {
			t.Errorf("%s: the loss is %g, but %g with every episode twice", agg, once, twice)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		loss, agg string
		ok        bool
	}{
		{"vanilla", TokenMean, true}, {"vanilla", SeqSumNorm, true}, {"gspo", SeqMeanTokenMean, true},
		{"gspo", TokenMean, false}, {"sapo", SeqMeanTokenSum, false}, {"geo_mean", TokenMean, false},
		{"vanila", TokenMean, false}, {"luspo", SeqMeanTokenSum, true}, {"luspo", SeqMeanTokenMean, false},
		{"vanilla", "mean", false},
	} {
		if err := Check(c.loss, c.agg); (err == nil) != c.ok {
			t.Errorf("%s with %s: %v", c.loss, c.agg, err)
		}
	}
}

// TestClipCovChooses checks that chooseClipCov chooses the configured share of tokens, among the
// tokens with a covariance within the bounds.
func TestClipCovChooses(t *testing.T) {
	const n = 40
	tokens := make([]Token, n)
	for i := range tokens {
		x := float64(i) - 19.5 // deviations from the mean, so that their mean is 0
		tokens[i] = Token{LogP: x, Old: x, Adv: x}
	}
	o := Options{Params: registry.Values{"clip_ratio_low": .2, "clip_ratio_high": .2, "clip_cov_ratio": .1, "clip_cov_lb": 50.0, "clip_cov_ub": 120.0}}
	chosen := chooseClipCov(tokens, o, 1)
	if trues(chosen) != 4 {
		t.Errorf("%d of 40 tokens were chosen, want 4", trues(chosen))
	}
	different := false
	for seed := range uint64(20) {
		second := chooseClipCov(tokens, o, seed)
		different = different || !slices.Equal(second, chosen)
		for i, c := range second {
			if cov := tokens[i].Adv * tokens[i].LogP; c && !(cov > 50 && cov < 120) {
				t.Errorf("seed %d chose a token with the covariance %g, want one between 50 and 120", seed, cov)
			}
		}
	}
	if !different {
		t.Error("all twenty seeds chose the same tokens")
	}
	for i := range tokens { // every token is clipped
		tokens[i].Old -= math.Copysign(1, tokens[i].Adv)
	}
	if n := trues(chooseClipCov(tokens, o, 1)); n != 0 {
		t.Errorf("%d clipped tokens were chosen, want 0", n)
	}
	o.Params["clip_cov_ratio"] = 1e-6
	for i := range tokens {
		tokens[i].Old = tokens[i].LogP
	}
	if n := trues(chooseClipCov(tokens, o, 1)); n != 1 {
		t.Errorf("%d tokens were chosen, want 1", n)
	}
}

// TestValue compares the value loss with spec 12.2: the returns are constant in a row, and the
// values change by the same amounts in all rows.
func TestValue(t *testing.T) {
	old := inMask(.1, .2, .3, .4, .5, 0, .1, 0, .1, 0, .2, .2, .2, .2, .2, -.1, -.2, -.3, 0, 0)
	returns := inMask(1, 1, 1, 1, 1, 0, 0, 0, 0, 0, .5, .5, .5, .5, .5, -1, -1, -1, -1, -1)
	moved := inMask(slices.Repeat([]float64{.6, -.6, .1, 0, .3}, 4)...)
	for i := range moved {
		moved[i] += old[i]
	}
	torchtest.Run(t, func(s *torch.Scope) {
		l, cut := Value(s.Float64s(moved, 14), s.Float64s(old, 14), s.Float64s(returns, 14), .5)
		torchtest.Values(t, l.Mean(), 1e-6, .225357)
		torchtest.Values(t, cut, 0, 2) // of 14 values
	})
	torchtest.GradCheck(t, func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
		l, _ := Value(in[0], s.Float64s(old, 14), s.Float64s(returns, 14), .5)
		return l
	}, 1e-6, torchtest.Input{Data: moved, Shape: []int{14}})
}
