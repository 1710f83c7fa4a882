package reward

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// Paid is the input of an Allocation: an episode.
type Paid struct {
	Score float64
	Mask  []uint8     // 1 on sampled tokens
	Turns []data.Turn // empty: each run of ones in Mask is a turn
	// Signal computes each turn's share for per_turn if Shares is nil; other allocations
	// ignore both.
	Signal Signal
	Shares []float64 // the share of each turn in Score, from score functions
	Gamma  float64   // discount of the allocation discounted
}

// Allocation distributes an episode's score over its tokens. The result has the
// mask's length and is 0 where the mask is 0.
type Allocation func(p Paid) ([]float32, error)

// Allocations holds the allocations by name. The formulas are from
// OpenManus-RL's _convert_rollout_results_to_dataproto (spec 3.5). All formulas
// differ from upstream in: rewards are on the sampled tokens, wherever they are in the
// row, and no reward is lost outside a window.
var Allocations = registry.New[Allocation]("reward allocation")

func init() {
	Allocations.Register("last_token", LastToken)
	Allocations.Register("uniform_positive", UniformPositive)
	Allocations.Register("discounted", Discounted)
	Allocations.Register("per_turn", PerTurn)
}

// ErrNoSampledToken is returned for an episode without a sampled token.
var ErrNoSampledToken = errors.New("the episode has no sampled token")

// LastToken puts the whole score on the last sampled token.
func LastToken(p Paid) ([]float32, error) {
	last, err := p.last()
	if err != nil {
		return nil, err
	}
	rewards := make([]float32, len(p.Mask))
	rewards[last] = float32(p.Score)
	return rewards, nil
}

// last returns the index of the last sampled token.
func (p *Paid) last() (int, error) {
	if i := bytes.LastIndexByte(p.Mask, 1); i >= 0 {
		return i, nil
	}
	return 0, ErrNoSampledToken
}

// UniformPositive gives each of n sampled tokens score/n if the score is positive,
// and puts a negative score on the last sampled token.
func UniformPositive(p Paid) ([]float32, error) {
	if p.Score <= 0 {
		return LastToken(p)
	}
	n := bytes.Count(p.Mask, []byte{1})
	if n == 0 {
		return nil, ErrNoSampledToken
	}
	rewards := make([]float32, len(p.Mask))
	for i, m := range p.Mask {
		rewards[i] = float32(m) * float32(p.Score/float64(n))
	}
	return rewards, nil
}

// Discounted goes through the turns from the last to the first, starting with
// c = score: each of a turn's n tokens gets c/n, then c becomes c·γⁿ.
//
// The discount is per token, and the sum over an episode exceeds its score: with
// γ = 1 every turn gets the full score. OpenManus-RL does the same in both points.
func Discounted(p Paid) ([]float32, error) {
	spans := p.spans()
	if len(spans) == 0 {
		return nil, ErrNoSampledToken
	}
	rewards := make([]float32, len(p.Mask))
	c := p.Score
	for k := len(spans) - 1; k >= 0; k-- {
		n := float64(spans[k].end - spans[k].start)
		for i := spans[k].start; i < spans[k].end; i++ {
			rewards[i] = float32(c / n)
		}
		c *= math.Pow(p.Gamma, n)
	}
	return rewards, nil
}

// PerTurn puts the change of the signal in a turn on the turn's last token:
// r_k = S(turns 1..k) - S(turns 1..k-1). With the signal sum, r_k is the reward of a
// step; with the signal last, r_k is the increment of the running score. If score functions
// give numbers per turn, r_k is that number (Paid.Shares). The difference of score and
// shares, such as penalties, is added at the end, so that the sum is the score.
//
// OpenManus-RL has no allocation per turn.
func PerTurn(p Paid) ([]float32, error) {
	parts := p.Shares
	switch {
	case len(p.Turns) == 0 || parts == nil && p.Signal == nil:
		return nil, errors.New("allocation per_turn needs the turns of the episode, and a signal or shares")
	case parts == nil:
		parts = shares(p.Signal, p.Turns)
	case len(parts) != len(p.Turns):
		return nil, fmt.Errorf("allocation per_turn: %d shares for %d turns", len(parts), len(p.Turns))
	}
	// Sums stay in float64 until the end, because the penalty may cancel the last share.
	paid := make([]float64, len(p.Mask))
	rest, waiting := p.Score, 0.0
	for k, t := range p.Turns {
		waiting += parts[k]
		if t.End > t.Start {
			paid[t.End-1] = waiting
			rest -= waiting
			waiting = 0
		} // the share of a turn without tokens goes to the next turn
	}
	last, err := p.last()
	if err != nil {
		return nil, err
	}
	paid[last] += rest
	rewards := make([]float32, len(paid))
	for i, x := range paid {
		rewards[i] = float32(x)
	}
	return rewards, nil
}

// shares returns the change of the signal in each turn.
func shares(signal Signal, turns []data.Turn) []float64 {
	out := make([]float64, len(turns))
	before := 0.0
	for k := range turns {
		now := signal(turns[:k+1])
		out[k] = now - before
		before = now
	}
	return out
}

type span struct{ start, end int }

// spans returns the turns that have tokens.
func (p *Paid) spans() []span {
	var out []span
	if len(p.Turns) > 0 {
		for _, t := range p.Turns {
			if t.End > t.Start {
				out = append(out, span{t.Start, t.End})
			}
		}
		return out
	}
	for i := 0; i < len(p.Mask); i++ {
		if p.Mask[i] != 1 {
			continue
		}
		start := i
		for i < len(p.Mask) && p.Mask[i] == 1 {
			i++
		}
		out = append(out, span{start, i})
	}
	return out
}
