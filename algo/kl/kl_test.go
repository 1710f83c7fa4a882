package kl

import (
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestMain(m *testing.M) {
	torch.SetNumThreads(1)
	torchtest.Main(m)
}

// The inputs of spec 12.3.
var (
	specMask = []float64{1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0}
	specNew  = []float64{-.9, -2.2, -.5, -.2, -2.5, -.7, -.2, -.6, -.4, -.3, -1.5, -2, -2, -2.5, -2.1, -.5, -.4, -.3, -.8, -1}
	specRef  = []float64{-1.1, -1.9, -.5, -.1, -3.2, -.7, -.8, -.5, -.5, -.3, -2, -2, -2, -2.2, -1.9, -.2, -.3, -.6, -.8, -1}
)

func TestEstimators(t *testing.T) {
	for _, c := range []struct {
		names []string
		row0  []float64
		mean  float64
	}{
		{[]string{"k1", "kl", "k1+", "kl+"}, []float64{.2, -.3, 0, -.1, .7}, .071429},
		{[]string{"abs", "abs+"}, []float64{.2, .3, 0, .1, .7}, .271429},
		{[]string{"k2", "mse", "mse+"}, []float64{.02, .045, 0, .005, .245}, .056429},
		{[]string{"k3", "low_var_kl", "k3+", "low_var_kl+"}, []float64{.018731, .049859, 0, .005171, .196585}, .050200},
	} {
		for _, name := range c.names {
			t.Run(name, func(t *testing.T) {
				e, _, err := Lookup(name)
				if err != nil {
					t.Fatal(err)
				}
				sum, n := 0.0, 0.0
				for i, m := range specMask {
					v := e.Value(specNew[i] - specRef[i])
					if i < len(c.row0) && math.Abs(v-c.row0[i]) > 1e-5 {
						t.Errorf("token %d is %g, want %g", i, v, c.row0[i])
					}
					sum += v * m
					n += m
				}
				if math.Abs(sum/n-c.mean) > 1e-5 {
					t.Errorf("the masked mean is %g, want %g", sum/n, c.mean)
				}
				torchtest.Run(t, func(s *torch.Scope) {
					v, err := Loss(name, s.Float64s(specNew, 20), s.Float64s(specRef, 20))
					if err != nil {
						t.Fatal(err)
					}
					torchtest.Values(t, v.Narrow(0, 0, 5), 1e-5, c.row0...)
				})
			})
		}
	}
	if err := Check("k4"); err == nil {
		t.Error("an unknown estimator was accepted")
	}
	if _, _, err := Lookup(Full); err == nil {
		t.Error("the full KL was estimated from one token")
	}
}

func TestK3IsBounded(t *testing.T) {
	if got := K3(-1000); got != 10 {
		t.Errorf("k3 of a ratio out of range is %g, want the bound 10", got)
	}
	torchtest.Run(t, func(s *torch.Scope) {
		x := s.Float64s([]float64{-5, -50, 50}, 3)
		x.SetRequiresGrad(true)
		v, err := Loss("k3", x, s.Zeros(torch.Float64, 3))
		if err != nil {
			t.Fatal(err)
		}
		torchtest.Values(t, v, 1e-12, 10, 10, 10)
		v.Sum().Backward()
		torchtest.Values(t, x.Grad(), 0, 0, 0, 0)
	})
}

func TestGradients(t *testing.T) {
	const n = 12
	loss := func(name string) torchtest.Func {
		return func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
			v, err := Loss(name, in[0], s.Float64s(torchtest.RandIn(2, -3, 0, n).Data, n).To(in[0].DType()))
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	logp := torchtest.RandIn(1, -3, 0, n)
	for _, name := range Estimators.Names() {
		t.Run(name, func(t *testing.T) { torchtest.GradCheck(t, loss(name), 1e-6, logp) })
		t.Run(name+"+", func(t *testing.T) {
			// The value comes from the estimator and the gradient from k2.
			torchtest.Run(t, func(s *torch.Scope) {
				grad := func(name string) (v, g []float64) {
					x := s.Float64s(logp.Data, n)
					x.SetRequiresGrad(true)
					y := loss(name)(s, []torch.Tensor{x})
					y.Sum().Backward()
					return y.ToFloat64s(), x.Grad().ToFloat64s()
				}
				value, _ := grad(name)
				_, k2 := grad("k2")
				v, g := grad(name + "+")
				for i := range v {
					if math.Abs(v[i]-value[i]) > 1e-12 || math.Abs(g[i]-k2[i]) > 1e-12 {
						t.Errorf("token %d: value %g and gradient %g, want %g and %g", i, v[i], g[i], value[i], k2[i])
					}
				}
			})
		})
	}
	t.Run("full", func(t *testing.T) {
		exact := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
			return Exact(in[0], s.Float64s(torchtest.RandIn(5, -2, 2, 12).Data, 3, 4).To(in[0].DType()))
		}
		torchtest.GradCheck(t, exact, 1e-6, torchtest.RandIn(4, -2, 2, 3, 4))
	})
}

// TestExact checks the KL between two Bernoulli distributions, and the KL of a distribution to
// itself.
func TestExact(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		logits := s.Float64s([]float64{math.Log(.75), math.Log(.25), 3, 1}, 2, 2)
		ref := s.Float64s([]float64{0, 0, 13, 11}, 2, 2)
		torchtest.Values(t, Exact(logits, ref), 1e-9, .75*math.Log(1.5)+.25*math.Log(.5), 0)
	})
}

// TestController compares the controllers with the numbers of spec 12.3.
func TestController(t *testing.T) {
	c := Controller{Kind: Adaptive, Coef: .2, Target: 6, Horizon: 10000}
	fixed := Controller{Kind: Fixed, Coef: .2}
	for i, measured := range []float64{3, 6, 12, 7} {
		c.Update(measured, 256)
		fixed.Update(measured, 256)
		if want := []float64{.198976, .198976, .199995, .200848}[i]; math.Abs(c.Coef-want) > 1e-6 {
			t.Errorf("after update %d the coefficient is %g, want %g", i, c.Coef, want)
		}
	}
	was := c.Coef
	for _, nothing := range []float64{math.NaN(), math.Inf(1)} {
		if c.Update(nothing, 256); c.Coef != was {
			t.Errorf("after a KL of %v the coefficient is %g, want it unchanged", nothing, c.Coef)
		}
	}
	if fixed.Coef != .2 {
		t.Errorf("the fixed coefficient is %g, want 0.2", fixed.Coef)
	}
	for _, bad := range []Controller{{Kind: "lazy"}, {Kind: Adaptive, Horizon: 1}, {Kind: Adaptive, Target: 1}} {
		if bad.Validate() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

// TestInReward compares InReward with spec 12.5 and the intended rewards: the KL is subtracted from
// every row. OpenManus-RL subtracts it from two rows only.
func TestInReward(t *testing.T) {
	masks := [][]uint8{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}}
	want := [][]float64{{-.05, -.05, .95}, {-.05, -.05, 1.95}, {-.05, -.05, 2.95}, {0, -.05, 3.95}}
	rows := make([]data.Row, len(masks))
	for i := range rows {
		rows[i] = data.Row{
			Mask: masks[i], Rewards: []float32{0, 0, float32(i + 1)}, OldLogProbs: []float32{-1, -1, -1}, RefLogProbs: []float32{-1.5, -1.5, -1.5},
		}
	}
	before := rows[0].Rewards
	mean, err := InReward(rows, "k1", .1)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(mean-.5) > 1e-6 {
		t.Errorf("the mean KL is %g, want .5", mean)
	}
	for i := range rows {
		for j, w := range want[i] {
			if math.Abs(float64(rows[i].Rewards[j])-w) > 1e-6 {
				t.Errorf("reward[%d][%d] is %g, want %g", i, j, rows[i].Rewards[j], w)
			}
		}
	}
	if before[0] != 0 {
		t.Error("the original rewards of the row were changed")
	}
	if _, err := InReward(rows, Full, .1); err == nil {
		t.Error("the full KL was subtracted from a reward")
	}
	rows[1].RefLogProbs = nil
	if _, err := InReward(rows, "k3", .1); err == nil {
		t.Error("a row without reference log-probs was accepted")
	}
}

// TestInRewardByEpisode checks that an episode of two contexts has the same rewards and the same
// mean KL as one context with the same tokens.
func TestInRewardByEpisode(t *testing.T) {
	whole := func() []data.Row {
		return []data.Row{
			{
				UID: "a", Tokens: make([]int32, 5), Mask: []uint8{0, 1, 0, 1, 1}, Rewards: []float32{0, 0, 0, 0, 1},
				OldLogProbs: []float32{0, -1, 0, -2, -3}, RefLogProbs: []float32{0, -1.5, 0, -2.25, -3.75},
			},
			{
				UID: "b", Tokens: make([]int32, 3), Mask: []uint8{0, 1, 1}, Rewards: []float32{0, 0, 2},
				OldLogProbs: []float32{0, -1, -1}, RefLogProbs: []float32{0, -3, -1},
			},
		}
	}
	rows := whole()
	r := rows[0]
	cut := []data.Row{r, r, rows[1]}
	for i, span := range [][2]int{{0, 2}, {2, 5}} {
		c := &cut[i]
		c.Context, c.Contexts = i, 2
		c.Tokens, c.Mask, c.Rewards = r.Tokens[span[0]:span[1]], r.Mask[span[0]:span[1]], r.Rewards[span[0]:span[1]]
		c.OldLogProbs, c.RefLogProbs = r.OldLogProbs[span[0]:span[1]], r.RefLogProbs[span[0]:span[1]]
	}
	want, err := InReward(rows, "k1", .5)
	if err != nil {
		t.Fatal(err)
	}
	got, err := InReward(cut, "k1", .5)
	if err != nil {
		t.Fatal(err)
	}
	if mean := ((.5+.25+.75)/3 + 1) / 2; want != mean || got != want {
		t.Errorf("the mean KL is %g in one context and %g in two contexts, want %g", want, got, mean)
	}
	var paid [2][]float32
	for i, list := range [][]data.Row{rows, cut} {
		for _, r := range list {
			paid[i] = append(paid[i], r.Rewards...)
		}
	}
	if !slices.Equal(paid[0], paid[1]) || paid[0][3] != -.125 {
		t.Errorf("the rewards are %v in one context and %v in two contexts, want equal ones", paid[0], paid[1])
	}
}
