package correction

// Metrics of the weights, with verl's names (rollout_corr_helper.py,
// compute_is_metrics of 0.9.1). w are the weights in the losses before the
// division by their mean, θ is the cap, W are the weights before the cap:
//
//	mean, std            over tokens, of w; std² = mean(w²) - mean(w)²
//	max, min             token: over tokens, of w; sequence: over episodes, of W
//	eff_sample_size      mean(w)² / mean(w²) over tokens: a share of their number
//	ratio_fraction_high  share of W above θ, over tokens or episodes depending on the level
//	ratio_fraction_low   share of W below θ_low, which is 1/θ without IcePop
//	oob_ratio            IcePop: share of tokens whose W is outside of the bounds
//	seq_mean, …          statistics over episodes of the mean w of an episode
//	seq_max_deviation    largest |mean of w - 1| of an episode
//	seq_fraction_high    share of episodes whose mean of W is above θ; low: below θ_low
//	batch_norm_factor    the mean that the weights are divided by
//
// Differs from verl in: an episode includes all its contexts, and an episode without
// a sampled token is left out instead of counting as 0.

import (
	"math"
	"slices"

	"github.com/openmanus/openmanus/algo/track"
)

const weightMetrics = track.RolloutCorrection + "/rollout_is_"

// sequenceWeights holds the weights of an episode's tokens.
type sequenceWeights struct {
	sequence
	logs        []float64 // log-weights before the cap: one per token, or one for the episode
	raw, capped []float64 // weight of each token before and after the cap
}

func (w Weights) describe(m map[string]float64, all []sequenceWeights) {
	var tokens, raw, logs, means, rawMeans []float64
	for _, ws := range all {
		tokens, raw, logs = append(tokens, ws.capped...), append(raw, ws.raw...), append(logs, ws.logs...)
		means, rawMeans = append(means, average(ws.capped)), append(rawMeans, average(ws.raw))
	}
	mean := average(tokens)
	squares := 0.0
	for _, v := range tokens {
		squares += v * v / float64(len(tokens))
	}
	set := func(name string, v float64) { m[weightMetrics+name] = v }
	set("mean", mean)
	set("std", math.Sqrt(max(0, squares-mean*mean)))
	effective := 0.0
	if squares > 0 {
		effective = mean * mean / squares
	}
	set("eff_sample_size", effective)
	if w.Level == Sequence {
		set("max", math.Exp(min(slices.Max(logs), maxExponent)))
		set("min", math.Exp(slices.Min(logs)))
	} else {
		set("max", slices.Max(tokens))
		set("min", slices.Min(tokens))
	}
	high, low := math.Log(w.Cap), math.Log(w.low())
	set("ratio_fraction_high", share(logs, func(x float64) bool { return x > high }))
	set("ratio_fraction_low", share(logs, func(x float64) bool { return x < low }))
	if w.Floor > 0 {
		set("oob_ratio", share(raw, func(x float64) bool { return x < w.Floor || x > w.Cap }))
	}

	least, largest := slices.Min(means), slices.Max(means)
	set("seq_mean", average(means))
	set("seq_std", deviation(means))
	set("seq_max", largest)
	set("seq_min", least)
	set("seq_max_deviation", max(math.Abs(largest-1), math.Abs(least-1)))
	set("seq_fraction_high", share(rawMeans, func(x float64) bool { return x > w.Cap }))
	set("seq_fraction_low", share(rawMeans, func(x float64) bool { return x < w.low() }))
}

func average(xs []float64) float64 { return sum(xs) / float64(len(xs)) }

// deviation returns the unbiased standard deviation; 0 for a single number.
func deviation(xs []float64) float64 {
	mean, squares := average(xs), 0.0
	for _, x := range xs {
		squares += (x - mean) * (x - mean)
	}
	return math.Sqrt(squares / max(1, float64(len(xs)-1)))
}

func share(xs []float64, of func(float64) bool) float64 {
	n := 0.0
	for _, x := range xs {
		if of(x) {
			n++
		}
	}
	return n / float64(len(xs))
}
