package eval

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openmanus/openmanus/data"
)

// ratio is a metric as a sum over tasks divided by another: what a bootstrap
// over tasks can add up anew for every resample.
type ratio struct {
	name     string
	num, den []float64 // by task
}

func (r *ratio) value() (float64, bool) {
	var num, den float64
	for i := range r.num {
		num += r.num[i]
		den += r.den[i]
	}
	return num / den, den > 0
}

// The metrics of every evaluation.
const (
	SuccessRate = "success_rate"
	MeanScore   = "mean_score"
	MeanTurns   = "mean_turns"
)

// ratios are the metrics of tasks that were played n times each:
//
//	success_rate   share of the episodes that succeeded
//	mean_score     mean reward of the episodes
//	mean_turns     mean replies of the episodes
//	mean@n         mean over tasks of a task's mean reward
//	best@n         mean over tasks of a task's best reward
//	pass@k         see PassAtK
//	outcome/NAME   share of the episodes that ended so
//
// Episodes lost to the infrastructure count in the outcomes alone. best@n is
// over the tasks of which none was lost: the best of fewer would be lower for
// no fault of the agent's.
func ratios(tasks []Task, n int) []*ratio {
	var all []*ratio
	add := func(name string, f func(s sums) (num, den float64)) {
		r := &ratio{name: name, num: make([]float64, len(tasks)), den: make([]float64, len(tasks))}
		for i := range tasks {
			r.num[i], r.den[i] = f(sumsOf(&tasks[i]))
		}
		all = append(all, r)
	}
	add(SuccessRate, func(s sums) (float64, float64) { return float64(s.successes), float64(s.played) })
	add(MeanScore, func(s sums) (float64, float64) { return s.score, float64(s.played) })
	add(MeanTurns, func(s sums) (float64, float64) { return float64(s.turns), float64(s.played) })
	add(fmt.Sprintf("mean@%d", n), func(s sums) (float64, float64) {
		if s.played == 0 {
			return 0, 0
		}
		return s.score / float64(s.played), 1
	})
	add(fmt.Sprintf("best@%d", n), func(s sums) (float64, float64) {
		if s.played < n {
			return 0, 0
		}
		return s.best, 1
	})
	for _, k := range PassKs(n) {
		add(fmt.Sprintf("pass@%d", k), func(s sums) (float64, float64) {
			if s.played < k {
				return 0, 0
			}
			return PassAtK(s.played, s.successes, k), 1
		})
	}
	for _, o := range slices.Sorted(maps.Keys(Outcomes(tasks))) {
		add("outcome/"+o, func(s sums) (float64, float64) {
			return float64(s.outcomes[data.Outcome(o)]), float64(s.all)
		})
	}
	return all
}

// sums are what a task's trials add up to.
type sums struct {
	all, played, successes, turns int
	score, best                   float64
	outcomes                      map[data.Outcome]int
}

func sumsOf(t *Task) sums {
	s := sums{outcomes: map[data.Outcome]int{}}
	for _, x := range t.Trials {
		s.all++
		s.outcomes[x.Outcome]++
		if x.lost() {
			continue
		}
		if s.played == 0 || x.Score > s.best {
			s.best = x.Score
		}
		s.played++
		s.turns += x.Turns
		s.score += x.Score
		if x.Outcome == data.Success {
			s.successes++
		}
	}
	return s
}

// Outcomes counts how the trials ended.
func Outcomes(tasks []Task) map[string]int {
	m := map[string]int{}
	for _, t := range tasks {
		for _, x := range t.Trials {
			m[string(x.Outcome)]++
		}
	}
	return m
}

// PassAtK is pass@k, the probability that at least one of k samples of a task
// succeeds, of n samples of which c succeeded. Its unbiased estimator is
//
//	pass@k = 1 - C(n-c, k) / C(n, k)
//
// (Chen et al., "Evaluating Large Language Models Trained on Code",
// arXiv:2107.03374, section 2.1), here as the product that does not overflow:
// 1 - Π_{i=n-c+1..n} (1 - k/i). It wants k ≤ n: fewer samples say nothing about
// pass@k, so such a task is left out.
func PassAtK(n, c, k int) float64 {
	if n-c < k {
		return 1
	}
	none := 1.0
	for i := n - c + 1; i <= n; i++ {
		none *= 1 - float64(k)/float64(i)
	}
	return 1 - none
}

// PassKs are the k that are reported for n samples: the powers of two, and n.
func PassKs(n int) []int {
	var ks []int
	for k := 1; k < n; k *= 2 {
		ks = append(ks, k)
	}
	return append(ks, n)
}
