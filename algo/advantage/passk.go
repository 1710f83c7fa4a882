package advantage

// Pass@k advantages: only the best row of a group has an advantage: the
// difference to the second best score.
//
//	A_best = (s_max - s_2nd) / (std_G s + 1e-6),   0 for all others
//
// Source: Tang et al., "Optimizing Language Models for Inference Time Objectives
// using Reinforcement Learning", arXiv:2503.19595, as in verl's grpo_passk.
//
// Differs from verl in: a group of one row, left after the other episodes failed in
// the infrastructure, has advantage 0; verl ends the run. Among equal best rows the
// first counts as the best, and its advantage is 0.

import (
	"slices"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

func init() {
	Estimators.Add(registry.Entry{Name: "grpo_passk", Doc: "advantage only for the best episode of a group", Params: []registry.Param{normByStd.Param}}, Estimator{Estimate: passK, Grouped: true})
}

func passK(rows []data.Row, o Options) error {
	byGroup(rows, func(scores []float64, _ []int) []float64 {
		out := make([]float64, len(scores))
		if len(scores) < 2 {
			return out
		}
		_, std := meanStd(scores)
		top := slices.Max(scores)
		best := slices.Index(scores, top)
		a := top - slices.Max(slices.Delete(scores, best, best+1))
		if normByStd.In(o.Params) {
			a /= std + epsilon
		}
		out[best] = a
		return out
	})
	return nil
}
