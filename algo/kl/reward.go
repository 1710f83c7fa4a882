package kl

// KL in the reward:
//
//	r_t ← r_t - β kl_t   on sampled tokens;   KL = mean over rows of the row's mean kl_t
//
// Source: Ziegler et al., arXiv:1909.08593; verl's apply_kl_penalty.
//
// Differs from OpenManus-RL in: every row is charged. There the result was
// written through a mask of integers, which are row numbers to torch: rows 0 and
// 1 were overwritten and the others kept their scores (spec 5.6).

import (
	"fmt"

	"github.com/openmanus/openmanus/data"
)

// InReward takes coef times the KL of every sampled token off its reward and
// returns the mean KL. Old and reference log-probs must be there. Rows without
// a sampled token do not count.
func InReward(rows []data.Row, name string, coef float64) (mean float64, err error) {
	e, _, err := lookup(name)
	if err != nil {
		return 0, fmt.Errorf("KL in the reward: %w", err)
	}
	counted := 0
	for i := range rows {
		r := &rows[i]
		if len(r.OldLogProbs) != len(r.Mask) || len(r.RefLogProbs) != len(r.Mask) || len(r.Rewards) != len(r.Mask) {
			return 0, fmt.Errorf("KL in the reward: row %d (%s) has %d old and %d reference log-probs and %d rewards for %d tokens",
				i, r.UID, len(r.OldLogProbs), len(r.RefLogProbs), len(r.Rewards), len(r.Mask))
		}
		sum, n := 0.0, 0
		rewards := make([]float32, len(r.Rewards))
		copy(rewards, r.Rewards)
		for t, m := range r.Mask {
			if m == 1 {
				v := e.Value(float64(r.OldLogProbs[t]) - float64(r.RefLogProbs[t]))
				rewards[t] = float32(float64(rewards[t]) - coef*v)
				sum += v
				n++
			}
		}
		r.Rewards = rewards
		if n > 0 {
			mean += sum / float64(n)
			counted++
		}
	}
	if counted > 0 {
		mean /= float64(counted)
	}
	return mean, nil
}
