package loss

import (
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// The rows of a mini-batch. The second row has no token in the loss.
var (
	gradLens = []int{5, 0, 3, 7, 1}
	gradOld  = torchtest.RandIn(2, -1.6, -.4, 16).Data
	gradNew  = torchtest.RandIn(1, -2, 0, 16).Data
	gradAdv  = func() []float64 {
		a := torchtest.Rand(3, 16).Data
		a[4] = 0
		return a
	}()
	gradWeights = torchtest.RandIn(4, .2, 2, 16).Data
	gradOptions = Options{Params: registry.Values{
		"clip_ratio_low": .2, "clip_ratio_high": .28, "clip_ratio_c": 1.8, "tau_pos": 1.0, "tau_neg": 1.05,
		"clip_cov_ratio": .2, "clip_cov_lb": .01, "clip_cov_ub": 5.0, "kl_cov_ratio": .2, "ppo_kl_coef": .3,
		"dro_beta": .3, "vespo_k_pos": 2.0, "vespo_lambda_pos": 3.0, "vespo_k_neg": 3.0, "vespo_lambda_neg": 2.0,
	}}
)

func clip(x, lo, hi float64) float64 { return math.Max(lo, math.Min(hi, x)) }

// rowMean returns, on each token, the mean over its row.
func rowMean(x []float64) []float64 {
	var out []float64
	at := 0
	for _, n := range gradLens {
		sum := 0.0
		for _, v := range x[at : at+n] {
			sum += v
		}
		at += n
		out = append(out, slices.Repeat([]float64{sum / float64(n)}, n)...)
	}
	return out
}

func gspoFormula(p, base []float64, o Options) []float64 {
	x := make([]float64, len(p))
	for i := range x {
		x[i] = base[i] - gradOld[i]
	}
	mean := rowMean(x)
	out := make([]float64, len(p))
	for i, a := range gradAdv {
		s := math.Exp(mean[i] + p[i] - base[i])
		out[i] = math.Max(-a*s, -a*clip(s, 1-clipLow.In(o.Params), 1+clipHigh.In(o.Params)))
	}
	return out
}

// formulas has every loss as a formula on numbers. p are the log-probs with a gradient;
// base are the same log-probs in the terms without a gradient.
var formulas = map[string]func(p, base []float64, o Options) []float64{
	"vanilla": tokens(func(_ int, p, _, old, a float64, o Options) float64 {
		r := math.Exp(p - old)
		l := math.Max(-a*r, -a*clip(r, 1-clipLow.In(o.Params), 1+clipHigh.In(o.Params)))
		if a < 0 {
			l = math.Min(l, -a*clipC.In(o.Params))
		}
		return l
	}),
	"dppo_tv": tokens(func(_ int, p, base, old, a float64, o Options) float64 {
		moved := math.Exp(base) - math.Exp(old)
		if a > 0 && moved > clipHigh.In(o.Params) || a <= 0 && -moved > clipLow.In(o.Params) {
			return 0
		}
		return -math.Min(math.Exp(base-old), clipC.In(o.Params)) * a * p
	}),
	"dppo_kl": tokens(func(_ int, p, base, old, a float64, o Options) float64 {
		now, q := math.Exp(base), math.Exp(old)
		d := q*(old-base) + (1-q)*math.Log((1-q+1e-8)/(1-now+1e-8))
		if a > 0 && now > q && d > clipHigh.In(o.Params) || a <= 0 && now < q && d > clipLow.In(o.Params) {
			return 0
		}
		return -math.Min(math.Exp(base-old), clipC.In(o.Params)) * a * p
	}),
	"dro": tokens(func(_ int, p, _, old, a float64, o Options) float64 {
		return -a*p + droBeta.In(o.Params)/2*(p-old)*(p-old)
	}),
	"vespo": func(p, base []float64, o Options) []float64 {
		x := make([]float64, len(p))
		for i := range x {
			x[i] = base[i] - gradOld[i]
		}
		mean, out, at := rowMean(x), make([]float64, len(p)), 0
		for _, n := range gradLens {
			for i := at; i < at+n; i++ {
				w, k, lambda := math.Exp(mean[i]*float64(n)), vespoKNeg, vespoLambdaNeg
				if gradAdv[i] >= 0 {
					k, lambda = vespoKPos, vespoLambdaPos
				}
				out[i] = -math.Pow(w, k.In(o.Params)) * math.Exp(lambda.In(o.Params)*(1-w)) * gradAdv[i] * p[i]
			}
			at += n
		}
		return out
	},
	"luspo": gspoFormula,
	"gspo":  gspoFormula,
	"sapo": tokens(func(_ int, p, _, old, a float64, o Options) float64 {
		tau := tauNeg.In(o.Params)
		if a > 0 {
			tau = tauPos.In(o.Params)
		}
		return -a * 4 / tau / (1 + math.Exp(-tau*(math.Exp(p-old)-1)))
	}),
	"cispo": tokens(func(_ int, p, base, old, a float64, o Options) float64 {
		return -clip(math.Exp(base-old), 1-clipLow.In(o.Params), 1+clipHigh.In(o.Params)) * a * p
	}),
	"gpg":       tokens(func(_ int, p, _, _, a float64, _ Options) float64 { return -a * p }),
	"reinforce": tokens(func(_ int, p, _, _, a float64, _ Options) float64 { return -a * p }),
	"clip_cov": tokens(func(i int, p, base, old, a float64, o Options) float64 {
		if choose("clip_cov", gradNew, gradOld, gradAdv, o)[i] {
			return 0
		}
		r := math.Exp(p - old)
		return math.Max(-a*r, -a*clip(r, 1-clipLow.In(o.Params), 1+clipHigh.In(o.Params)))
	}),
	"kl_cov": tokens(func(i int, p, base, old, a float64, o Options) float64 {
		l := -a * math.Exp(p-old)
		if choose("kl_cov", gradNew, gradOld, gradAdv, o)[i] {
			l += ppoKLCoef.In(o.Params) * math.Abs(p-old)
		}
		return l
	}),
	"geo_mean": func(p, _ []float64, o Options) []float64 {
		x := make([]float64, len(p))
		for i, a := range gradAdv {
			d := p[i] - gradOld[i]
			sign := 0.0
			if a != 0 {
				sign = math.Copysign(1, a)
			}
			x[i] = sign * math.Min(sign*d, sign*clip(d, -clipLow.In(o.Params), clipHigh.In(o.Params)))
		}
		mean, adv := rowMean(x), rowMean(gradAdv)
		for i := range x {
			x[i] = -adv[i] * math.Exp(mean[i])
		}
		return x
	},
	"bypass_mode": func(p, base []float64, o Options) []float64 {
		if o.BypassLoss == "" {
			return tokens(func(_ int, p, _, old, a float64, o Options) float64 {
				r := math.Exp(p - old)
				l := math.Max(-a*r, -a*clip(r, 1-clipLow.In(o.Params), 1+clipHigh.In(o.Params)))
				if a < 0 {
					l = math.Min(l, -a*clipC.In(o.Params))
				}
				return l
			})(p, base, o)
		}
		x := make([]float64, len(p))
		for i := range x {
			x[i] = base[i] - gradOld[i]
		}
		at := 0
		for _, n := range gradLens {
			sum := 0.0
			for _, v := range x[at : at+n] {
				sum += v
			}
			for i := at; i < at+n; i++ {
				if o.BypassWeights == BySequence {
					x[i] = sum
				}
			}
			at += n
		}
		out := make([]float64, len(p))
		for i, a := range gradAdv {
			w := 1.0
			if o.BypassWeights != "" {
				w = math.Exp(x[i])
				if o.BypassWeightsFloor > 0 && (w < o.BypassWeightsFloor || w > o.BypassWeightsCap) {
					w = 0
				}
				w = math.Min(w, o.BypassWeightsCap)
			}
			out[i] = -w * a * p[i]
		}
		return out
	},
}

func tokens(f func(i int, p, base, old, a float64, o Options) float64) func(p, base []float64, o Options) []float64 {
	return func(p, base []float64, o Options) []float64 {
		out := make([]float64, len(p))
		for i := range p {
			out[i] = f(i, p[i], base[i], gradOld[i], gradAdv[i], o)
		}
		return out
	}
}

// TestEveryPolicyGradient checks that every loss equals its formula for every token, and its
// gradient equals the finite differences of the formula, in which the terms under sg are constant.
func TestEveryPolicyGradient(t *testing.T) {
	type variant struct {
		what string
		o    Options
	}
	for _, name := range Policies.Names() {
		variants := []variant{{"", gradOptions}}
		if name == Bypass {
			for _, by := range []string{"", ByToken, BySequence} {
				o := gradOptions
				o.BypassLoss, o.BypassWeights, o.BypassWeightsCap = Reinforce, by, 1.3
				variants = append(variants, variant{" reinforce by " + by, o})
				o.BypassWeightsFloor = .6
				variants = append(variants, variant{" reinforce by " + by + " with IcePop", o})
			}
		}
		for _, v := range variants {
			t.Run(name+v.what, func(t *testing.T) { checkGradient(t, name, v.o) })
		}
	}
}

func checkGradient(t *testing.T, name string, o Options) {
	formula, ok := formulas[name]
	if !ok {
		t.Fatalf("the test lacks a formula for the loss %s", name)
	}
	n := len(gradNew)
	want := make([]float64, n)
	const h = 1e-6
	moved := slices.Clone(gradNew)
	for i := range want {
		for _, d := range []float64{h, -h} {
			moved[i] = gradNew[i] + d
			for j, l := range formula(moved, gradNew, o) {
				want[i] += float64(j+1) * l / (2 * h) * math.Copysign(1, d)
			}
		}
		moved[i] = gradNew[i]
	}
	coefficients := make([]float64, n)
	for j := range coefficients {
		coefficients[j] = float64(j + 1)
	}
	torchtest.Run(t, func(s *torch.Scope) {
		logp := s.Float64s(gradNew, n)
		logp.SetRequiresGrad(true)
		l, _ := policy(t, s, name, logp, o, nil)
		torchtest.Values(t, l, 1e-9, formula(gradNew, gradNew, o)...)
		l.BackwardWith(s.Float64s(coefficients, n))
		torchtest.Values(t, logp.Grad(), 1e-6, want...)
	})
}

func policy(t *testing.T, s *torch.Scope, name string, logp torch.Tensor, o Options, w []float64) (torch.Tensor, Sums) {
	t.Helper()
	p, err := Policies.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	n := len(gradNew)
	b := Batch{
		LogP: logp, Old: s.Float64s(gradOld, n), Adv: s.Float64s(gradAdv, n), Lens: gradLens,
		Chosen: choose(name, gradNew, gradOld, gradAdv, o),
	}
	if w != nil {
		b.Weights = s.Float64s(w, n)
	}
	return p.Loss(s, b, o)
}

// TestWeights checks that weights of a rollout correction multiply the losses of the tokens. In
// geo_mean their geometric mean multiplies the loss of the row. In vespo the weights are part of
// the ratio. bypass_mode ignores these weights, because it computes other weights.
func TestWeights(t *testing.T) {
	for _, name := range Policies.Names() {
		if name == Bypass {
			continue
		}
		t.Run(name, func(t *testing.T) {
			torchtest.Run(t, func(s *torch.Scope) {
				logp := s.Float64s(gradNew, len(gradNew))
				plain, _ := policy(t, s, name, logp, gradOptions, nil)
				weighed, _ := policy(t, s, name, logp, gradOptions, gradWeights)
				w := slices.Clone(gradWeights)
				if name == "vespo" {
					old := slices.Clone(gradOld)
					for i := range w {
						gradOld[i], w[i] = gradOld[i]-math.Log(w[i]), 1
					}
					plain, _ = policy(t, s, name, logp, gradOptions, nil)
					copy(gradOld, old)
				}
				if name == "geo_mean" {
					for i := range w {
						w[i] = math.Log(w[i])
					}
					w = rowMean(w)
					for i := range w {
						w[i] = math.Exp(w[i])
					}
				}
				torchtest.Values(t, weighed, 1e-6, plain.Mul(s.Float64s(w, len(w))).ToFloat64s()...)
			})
		})
	}
}

// TestMicroBatches checks that, for every loss and aggregation, the gradients and statistics of
// micro-batches of whole rows add up to the gradients and statistics of the mini-batch.
func TestMicroBatches(t *testing.T) {
	n := len(gradNew)
	for _, name := range Policies.Names() {
		p, _ := Policies.Lookup(name)
		for _, agg := range Aggregations.Names() {
			if Check(name, agg) != nil {
				continue
			}
			t.Run(name+" "+agg, func(t *testing.T) {
				torchtest.Run(t, func(s *torch.Scope) {
					chosen := choose(name, gradNew, gradOld, gradAdv, gradOptions)
					factors := weights(t, s, agg, gradLens, 7)
					run := func(sizes ...int) []float64 { // sizes: rows of each micro-batch
						logp := s.Float64s(gradNew, n)
						logp.SetRequiresGrad(true)
						total, sums, row, at := 0.0, [3]float64{}, 0, 0
						for _, size := range sizes {
							lens := gradLens[row : row+size]
							tokens := 0
							for _, k := range lens {
								tokens += k
							}
							cut := func(x []float64) torch.Tensor { return s.Float64s(x[at:at+tokens], tokens) }
							b := Batch{LogP: logp.Narrow(0, at, tokens), Old: cut(gradOld), Adv: cut(gradAdv), Weights: cut(gradWeights), Lens: lens}
							if chosen != nil {
								b.Chosen = chosen[at : at+tokens]
							}
							l, st := p.Loss(s, b, gradOptions)
							l = l.Mul(factors.Narrow(0, at, tokens)).Sum()
							l.Backward()
							total += l.Item()
							sums = [3]float64{sums[0] + valueOf(st.ClipFrac), sums[1] + valueOf(st.ClipFracLower), sums[2] + valueOf(st.PPOKL)}
							row, at = row+size, at+tokens
						}
						return append(logp.Grad().ToFloat64s(), append(sums[:], total)...)
					}
					all := run(5)
					for _, sizes := range [][]int{{1, 2, 1, 1}, {2, 3}, {3, 2}} {
						for i, got := range run(sizes...) {
							if !(math.Abs(got-all[i]) <= 1e-10) {
								t.Errorf("with micro-batches of %v rows the gradient or statistic %d is %g, want %g", sizes, i, got, all[i])
							}
						}
					}
				})
			})
		}
	}
}
