package correction

// Truncated importance weights:
//
//	token     w_t = min(exp(clamp(x_t, ±20)), θ)
//	sequence  w_t = min(exp(clamp(Σ x, ±20)), θ) for every token of the episode
//
// With a lower bound they are the weights of IcePop, which are 0 outside the bounds:
//
//	w_t = exp(…) where θ_low ≤ exp(…) ≤ θ, else 0
//
// The weights multiply the token losses and have no gradient. Optionally they are
// divided by their mean over the batch. Sources: Espeholt et al., IMPALA,
// arXiv:1802.01561 (truncation); Yao et al., "Your efficient RL framework
// secretly brings you off-policy RL training", 2025, and verl for its use here;
// IcePop: Ling Team, "Every Step Evolves", arXiv:2510.18855, and verl's
// rollout_is_threshold of two numbers.
//
// Differs from verl in: if every weight is 0, the effective sample size is 0; verl
// divides by zero.

import (
	"fmt"
	"math"

	"github.com/openmanus/openmanus/data"
)

// The levels at which weights are computed.
const (
	Token    = "token"
	Sequence = "sequence"
)

// maxExponent bounds the exponent of a weight.
const maxExponent = 20

// Weights configures the importance weights.
type Weights struct {
	Level     string // Token or Sequence
	Cap       float64
	Floor     float64 // lower bound of IcePop; 0: no lower bound, weights are truncated at Cap
	Normalize bool
}

// Apply sets the Weights of the rows and writes their metrics.
func (w Weights) Apply(rows []data.Row, m map[string]float64) error {
	seqs, err := sequences(rows)
	if err != nil {
		return err
	}
	var all []sequenceWeights // sequences with a sampled token
	for _, seq := range seqs {
		ws := sequenceWeights{sequence: seq, logs: seq.x, raw: make([]float64, len(seq.x)), capped: make([]float64, len(seq.x))}
		switch w.Level {
		case Token:
		case Sequence:
			ws.logs = []float64{sum(seq.x)}
		default:
			return fmt.Errorf("rollout correction: unknown level of weights %q; use %s or %s", w.Level, Token, Sequence)
		}
		for k := range seq.x {
			ws.raw[k] = math.Exp(clamp(ws.logs[k%len(ws.logs)]))
			ws.capped[k] = w.bounded(ws.raw[k])
		}
		if len(seq.x) > 0 {
			all = append(all, ws)
		}
	}
	if len(all) == 0 {
		return nil
	}
	w.describe(m, all)
	mean := 1.0
	if w.Normalize {
		var over []float64
		for _, ws := range all {
			if w.Level == Sequence { // all tokens of an episode have one weight
				over = append(over, ws.capped[0])
			} else {
				over = append(over, ws.capped...)
			}
		}
		if mean = sum(over) / float64(len(over)); mean <= 1e-8 { // all weights are 0: do not divide, as in verl
			mean = 1
		}
		m[weightMetrics+"batch_norm_factor"] = mean
	}
	for i := range rows {
		rows[i].Weights = make([]float32, len(rows[i].Mask))
	}
	for _, ws := range all {
		for k, p := range ws.at {
			rows[p.row].Weights[p.token] = float32(ws.capped[k] / mean)
		}
	}
	return nil
}

// bounded returns the weight in the loss for the unbounded weight raw.
func (w Weights) bounded(raw float64) float64 {
	if w.Floor > 0 && (raw < w.Floor || raw > w.Cap) {
		return 0
	}
	return min(raw, w.Cap)
}

// low returns the ratio below which a weight counts as low in the metrics.
func (w Weights) low() float64 {
	if w.Floor > 0 {
		return w.Floor
	}
	return 1 / w.Cap
}

func clamp(x float64) float64 { return max(-maxExponent, min(maxExponent, x)) }
