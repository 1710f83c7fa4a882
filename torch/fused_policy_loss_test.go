package torch_test

import (
	"math"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// The rows of spec 12, 4 × 5.
var (
	specMask = []float64{1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0}
	specOld  = []float64{-1, -2, -.5, -.1, -3, -.7, -.6, -.5, -.4, -.3, -2, -2, -2, -2, -2, -.2, -.4, -.6, -.8, -1}
	specNew  = []float64{-.9, -2.2, -.5, -.2, -2.5, -.7, -.2, -.6, -.4, -.3, -1.5, -2, -2, -2.5, -2.1, -.5, -.4, -.3, -.8, -1}
	specRef  = []float64{-1.1, -1.9, -.5, -.1, -3.2, -.7, -.8, -.5, -.5, -.3, -2, -2, -2, -2.2, -1.9, -.2, -.3, -.6, -.8, -1}
	specAdv  = []float64{1, 1, 1, 1, 1, -1, -1, -1, -1, -1, .5, .5, .5, .5, .5, -2, -2, -2, -2, -2}
)

const specTokens = 14 // Σ of specMask

// policyLoss is the loss made of plain operations: the independent check of the closed form.
func policyLoss(logp, old, adv, mask torch.Tensor, o torch.PolicyLossOptions) torch.Tensor {
	ratio := logp.Sub(old).Clamp(-20, 20).Exp()
	larger := adv.Neg().Mul(ratio).Maximum(adv.Neg().Mul(ratio.Clamp(1-o.ClipLow, 1+o.ClipHigh)))
	loss := larger
	if o.ClipC != 0 {
		loss = torch.Where(adv.LtScalar(0), larger.Minimum(adv.MulScalar(-o.ClipC)), larger)
	}
	return loss.Mul(mask).Sum().MulScalar(1 / o.Normalizer)
}

func TestPolicyLossVectors(t *testing.T) {
	cut := append([]float64(nil), specOld...)
	for i := 15; i < 20; i++ {
		cut[i] += 1.5
	}
	tests := []struct {
		name                  string
		logp                  []float64
		low, high, c          float64
		loss, clip, lower, kl float64
	}{
		{"one clip, no dual clip", specNew, .2, .2, 0, .379425, .214286, 0, -.035714},
		{"clip-higher with dual clip", specNew, .2, .28, 3, .370854, .214286, 0, -.035714},
		{"dual clip", cut, .2, .28, 3, 1.178571, 0, .214286, -.321429},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			torchtest.Run(t, func(s *torch.Scope) {
				v := func(x []float64) torch.Tensor { return s.Float64s(x, 20).To(torch.Float32) }
				o := torch.PolicyLossOptions{ClipLow: tt.low, ClipHigh: tt.high, ClipC: tt.c, Normalizer: specTokens}
				loss, st := torch.PolicyLoss(v(tt.logp), v(specOld), v(specAdv), v(specMask), o)
				torchtest.Values(t, loss, 1e-6, tt.loss)
				if st.Mask != specTokens {
					t.Errorf("the mask sums to %v, want %v", st.Mask, specTokens)
				}
				got := s.Float64s([]float64{st.ClipFrac / st.Mask, st.ClipFracLower / st.Mask, st.PPOKL / st.Mask}, 3)
				torchtest.Values(t, got, 1e-6, tt.clip, tt.lower, tt.kl)
			})
		})
	}
}

func TestPolicyLossGradient(t *testing.T) {
	const n = 40
	o := torch.PolicyLossOptions{ClipLow: .2, ClipHigh: .28, ClipC: 1.8, Normalizer: 17}
	inputs := func(s *torch.Scope) (old, adv, mask torch.Tensor) {
		get := func(in torchtest.Input) torch.Tensor { return s.Float64s(in.Data, in.Shape...) }
		return get(torchtest.RandIn(2, -1.5, -.5, n)), get(torchtest.Rand(3, n)), get(torchtest.RandIn(4, 0, 1, n))
	}
	kernel := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
		old, adv, mask := inputs(s)
		loss, _ := torch.PolicyLoss(in[0], old, adv, mask, o)
		return loss
	}
	plain := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
		old, adv, mask := inputs(s)
		return policyLoss(in[0], old, adv, mask, o)
	}
	logp := torchtest.RandIn(1, -2, 0, n)
	logp.Data[0], logp.Data[1] = 30, -30 // the log-ratio is limited to ±20, and flat beyond
	torchtest.GradCheck(t, kernel, 1e-6, torchtest.RandIn(1, -2, 0, n))
	torchtest.Same(t, torch.Float64, kernel, plain, 1e-9, logp)
	torchtest.Same(t, torch.Float32, kernel, plain, 1e-6, torchtest.RandIn(1, -2, 0, n))
}

// On the first update the ratio is exactly 1, and the gradient is that of the plain policy gradient.
func TestPolicyLossOnPolicy(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		logp := s.Float32s([]float32{-1, -2, -3}, 3)
		logp.SetRequiresGrad(true)
		adv, mask := s.Float32s([]float32{1, -2, 5}, 3), s.Float32s([]float32{1, 1, 0}, 3)
		o := torch.PolicyLossOptions{ClipLow: .2, ClipHigh: .2, ClipC: 3, Normalizer: 2}
		loss, st := torch.PolicyLoss(logp, logp.Detach(), adv, mask, o)
		torchtest.Values(t, loss, 1e-7, .5)
		loss.Backward()
		torchtest.Values(t, logp.Grad(), 1e-7, -.5, 1, 0)
		if want := (torch.PolicyStats{Mask: 2, Ratio: 2, RatioMax: 1}); st != want {
			t.Errorf("stats %+v, want %+v", st, want)
		}
	})
}

func TestPolicyLossIgnoresWhatIsMasked(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		nan := float32(math.NaN())
		logp := s.Float32s([]float32{-1, nan}, 2)
		logp.SetRequiresGrad(true)
		adv, mask := s.Float32s([]float32{1, nan}, 2), s.Float32s([]float32{1, 0}, 2)
		old := s.Float32s([]float32{-1, nan}, 2)
		loss, _ := torch.PolicyLoss(logp, old, adv, mask, torch.PolicyLossOptions{Normalizer: 1})
		loss.Backward()
		torchtest.Values(t, logp.Grad(), 0, -1, 0)
		// At a position that counts, NaN must show.
		bad, _ := torch.PolicyLoss(logp, old, adv, s.Ones(torch.Float32, 2), torch.PolicyLossOptions{Normalizer: 1})
		torchtest.Values(t, bad, 0, math.NaN())
	})
}

func TestKLLossVectors(t *testing.T) {
	tests := []struct {
		kind string
		row0 []float64
		mean float64
	}{
		{"k1", []float64{.2, -.3, 0, -.1, .7}, .071429},
		{"abs", []float64{.2, .3, 0, .1, .7}, .271429},
		{"k2", []float64{.02, .045, 0, .005, .245}, .056429},
		{"k3", []float64{.018731, .049859, 0, .005171, .196585}, .050200},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			torchtest.Run(t, func(s *torch.Scope) {
				v := func(x []float64) torch.Tensor { return s.Float64s(x, len(x)).To(torch.Float32) }
				torchtest.Values(t, torch.KLLoss(v(specNew), v(specRef), v(specMask), specTokens, tt.kind), 1e-6, tt.mean)
				for i, want := range tt.row0 {
					one := make([]float64, 20)
					one[i] = 1
					torchtest.Values(t, torch.KLLoss(v(specNew), v(specRef), v(one), 1, tt.kind), 1e-6, want)
				}
			})
		})
	}
}

func TestKLLossGradient(t *testing.T) {
	const n = 12
	for _, kind := range []string{"k1", "abs", "k2", "k3"} {
		t.Run(kind, func(t *testing.T) {
			f := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
				ref := s.Float64s(torchtest.RandIn(2, -3, 0, n).Data, n)
				mask := s.Float64s(torchtest.RandIn(3, 0, 1, n).Data, n)
				return torch.KLLoss(in[0], ref, mask, 5, kind)
			}
			torchtest.GradCheck(t, f, 1e-7, torchtest.RandIn(1, -3, 0, n))
		})
	}
	// k3 is limited to 10, and flat where it is.
	torchtest.Run(t, func(s *torch.Scope) {
		x := s.Float64s([]float64{-5, -50, 50}, 3)
		x.SetRequiresGrad(true)
		one := s.Ones(torch.Float64, 3)
		torch.KLLoss(x, s.Zeros(torch.Float64, 3), one, 1, "k3").Backward()
		torchtest.Values(t, x.Grad(), 0, 0, 0, 0)
		torchtest.Values(t, torch.KLLoss(x, s.Zeros(torch.Float64, 3), one, 1, "k3"), 1e-12, 30)
	})
}
