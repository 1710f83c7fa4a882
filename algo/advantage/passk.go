package advantage

// Pass@k advantages: only the best row of a group has an advantage, its margin
// over the second best.
//
//	A_best = (s_max - s_2nd) / (std_G s + 1e-6),   0 for all others
//
// Source: Tang et al., "Optimizing Language Models for Inference Time Objectives
// using Reinforcement Learning", arXiv:2503.19595, as in verl's grpo_passk.
//
// Differs from verl in: a group of one row, whose other episodes failed in the
// infrastructure, has advantage 0; verl ends the run. Among equal best rows the
// first counts as the best, and its margin is 0.

import (
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

func init() {
	Estimators.Add(registry.Entry{Name: "grpo_passk", Doc: "advantage for the best episode of a group alone", Params: []registry.Param{normByStd.Param}}, Estimator{Estimate: passK, Grouped: true})
}

func passK(rows []data.Row, o Options) error {
	byGroup(rows, func(scores []float64, members []int, set func(int, float64)) {
		best := members[0]
		for _, i := range members {
			if scores[i] > scores[best] {
				best = i
			}
			set(i, 0)
		}
		if len(members) < 2 {
			return
		}
		second, found := 0.0, false
		for _, i := range members {
			if i != best && (!found || scores[i] > second) {
				second, found = scores[i], true
			}
		}
		a := scores[best] - second
		if normByStd.In(o.Params) {
			_, std := MeanStd(scores, members)
			a /= std + epsilon
		}
		set(best, a)
	})
	return nil
}
