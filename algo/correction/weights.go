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

// Apply fills the rows' Weights and writes their metrics.
func (w Weights) Apply(rows []data.Row, m map[string]float64) error {
	seqs, err := sequences(rows)
	if err != nil {
		return err
	}
	var all []sequenceWeights // of the sequences with a sampled token
	for _, seq := range seqs {
		ws := sequenceWeights{sequence: seq, logs: seq.x, raw: make([]float64, len(seq.x)), capped: make([]float64, len(seq.x))}
		switch w.Level {
		case Token:
		case Sequence:
			ws.logs = []float64{sum(seq.x)}
		default:
			return fmt.Errorf("rollout correction: unknown level of weights %q; there are %s and %s", w.Level, Token, Sequence)
		}
		for k := range seq.x {
			ws.raw[k] = math.Exp(clamp(ws.logs[k%len(ws.logs)]))
			ws.capped[k] = math.Min(ws.raw[k], w.Cap)
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
			if w.Level == Sequence { // an episode is weighed as one
				over = append(over, ws.capped[0])
			} else {
				over = append(over, ws.capped...)
			}
		}
		mean = sum(over) / float64(len(over))
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

func clamp(x float64) float64 { return math.Max(-maxExponent, math.Min(maxExponent, x)) }
