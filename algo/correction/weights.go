package correction

// Truncated importance weights:
//
//	token     w_t = min(exp(clamp(x_t, ±20)), θ)
//	sequence  w_t = min(exp(clamp(Σ x, ±20)), θ) for every token of the episode
//
// multiplied into the token losses without a gradient, optionally divided by
// their mean over the batch. Sources: Espeholt et al., IMPALA,
// arXiv:1802.01561 (truncation); Yao et al., "Your efficient RL framework
// secretly brings you off-policy RL training", 2025, and verl for its use here.

import (
	"fmt"
	"math"

	"github.com/openmanus/openmanus/data"
)

// Levels of weights.
const (
	Token    = "token"
	Sequence = "sequence"
)

// maxExponent bounds the exponent of a weight.
const maxExponent = 20

// Weights says how tokens are weighed.
type Weights struct {
	Level     string // Token or Sequence
	Cap       float64
	Normalize bool
}

// Apply fills the rows' Weights and writes the diagnostics of the weights,
// before the cap where they are not said to be of what is left after it.
func (w Weights) Apply(rows []data.Row, m map[string]float64) error {
	seqs, err := sequences(rows)
	if err != nil {
		return err
	}
	raw := make([][]float64, len(seqs)) // of the tokens, before the cap
	var tokens, whole []float64
	for i, seq := range seqs {
		raw[i] = make([]float64, len(seq.x))
		all := math.Exp(clamp(sum(seq.x)))
		for k, v := range seq.x {
			switch w.Level {
			case Token:
				raw[i][k] = math.Exp(clamp(v))
			case Sequence:
				raw[i][k] = all
			default:
				return fmt.Errorf("rollout correction: unknown level of weights %q; there are %s and %s", w.Level, Token, Sequence)
			}
		}
		if len(seq.x) > 0 {
			tokens = append(tokens, raw[i]...)
			whole = append(whole, sum(raw[i])/float64(len(raw[i])))
		}
	}
	if len(tokens) == 0 {
		return nil
	}
	w.describe(m, "rollout_corr/rollout_is_", tokens)
	describe(m, "rollout_corr/rollout_is_seq_", whole, w.Cap)
	mean := 1.0
	if w.Normalize {
		over := tokens
		if w.Level == Sequence { // an episode is weighed as one
			over = whole
		}
		mean = 0
		for _, v := range over {
			mean += math.Min(v, w.Cap) / float64(len(over))
		}
	}
	for i := range rows {
		rows[i].Weights = make([]float32, len(rows[i].Mask))
	}
	for i, seq := range seqs {
		for k, p := range seq.at {
			rows[p.row].Weights[p.token] = float32(math.Min(raw[i][k], w.Cap) / mean)
		}
	}
	return nil
}

// describe adds to the spread of the weights their effective sample size as a
// share of their number, (Σw)² / (n Σw²), of weights kept between 1/θ and θ.
func (w Weights) describe(m map[string]float64, prefix string, ws []float64) {
	describe(m, prefix, ws, w.Cap)
	s, squares := 0.0, 0.0
	for _, v := range ws {
		v = math.Max(1/w.Cap, math.Min(v, w.Cap))
		s += v
		squares += v * v
	}
	m[prefix+"eff_sample_size"] = s * s / squares / float64(len(ws))
}

// describe writes the spread of weights, and how many are beyond the cap and
// below its inverse.
func describe(m map[string]float64, prefix string, ws []float64, most float64) {
	n := float64(len(ws))
	mean := sum(ws) / n
	variance, high, low, largest, least := 0.0, 0.0, 0.0, math.Inf(-1), math.Inf(1)
	for _, v := range ws {
		variance += (v - mean) * (v - mean)
		largest, least = math.Max(largest, v), math.Min(least, v)
		if v > most {
			high++
		}
		if v < 1/most {
			low++
		}
	}
	m[prefix+"mean"], m[prefix+"max"], m[prefix+"min"] = mean, largest, least
	m[prefix+"std"] = math.Sqrt(variance / math.Max(1, n-1))
	m[prefix+"ratio_fraction_high"], m[prefix+"ratio_fraction_low"] = high/n, low/n
}

func clamp(x float64) float64 { return math.Max(-maxExponent, math.Min(maxExponent, x)) }
