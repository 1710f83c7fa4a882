package kl

// KL in the reward:
//
//	r_t ← r_t - β kl_t   on sampled tokens;   KL = mean over episodes of the episode's mean kl_t
//
// Source: Ziegler et al., arXiv:1909.08593; verl's apply_kl_penalty.
//
// Differs from OpenManus-RL in: the KL is subtracted from every row. OpenManus-RL
// indexes with a mask of integers, which torch reads as row numbers: rows 0 and 1 were
// overwritten and the others kept their scores (spec 5.6).

import (
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/data"
)

// InReward subtracts coef times the KL of every sampled token from its reward. It
// returns the mean over episodes of an episode's mean KL over the tokens of all its
// contexts, without episodes that have no sampled token. The rows need OldLogProbs and
// RefLogProbs.
func InReward(rows []data.Row, name string, coef float64) (mean float64, err error) {
	e, _, err := Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("KL in the reward: %w", err)
	}
	for i := range rows {
		r := &rows[i]
		if len(r.OldLogProbs) != len(r.Mask) || len(r.RefLogProbs) != len(r.Mask) || len(r.Rewards) != len(r.Mask) {
			return 0, fmt.Errorf("KL in the reward: row %d (%s) has %d old and %d reference log-probs and %d rewards for %d tokens",
				i, r.UID, len(r.OldLogProbs), len(r.RefLogProbs), len(r.Rewards), len(r.Mask))
		}
	}
	counted := 0
	err = data.ByEpisode(rows, func(episodes []data.Row) error {
		for i := range episodes {
			if kl, n := subtract(&episodes[i], e, coef); n > 0 {
				mean += kl / float64(n)
				counted++
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("KL in the reward: %w", err)
	}
	if counted > 0 {
		mean /= float64(counted)
	}
	return mean, nil
}

// subtract subtracts an episode's KL from its rewards and returns the sum of the KL over
// its n sampled tokens.
func subtract(r *data.Row, e Estimator, coef float64) (sum float64, n int) {
	rewards := slices.Clone(r.Rewards)
	for t, m := range r.Mask {
		if m == 1 {
			v := e.Value(float64(r.OldLogProbs[t]) - float64(r.RefLogProbs[t]))
			rewards[t] = float32(float64(rewards[t]) - coef*v)
			sum += v
			n++
		}
	}
	r.Rewards = rewards
	return sum, n
}
