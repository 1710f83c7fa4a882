package eval

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openmanus/openmanus/data"
)

// ratio is a metric as the quotient of two sums over tasks, so that a bootstrap
// can recompute it for every resample.
type ratio struct {
	name     string
	num, den []float64 // values by task
}

// over returns the metric over a list that may repeat tasks. It is NaN if no task
// of the list has the metric.
func (r *ratio) over(tasks []int) float64 {
	var num, den float64
	for _, i := range tasks {
		num += r.num[i]
		den += r.den[i]
	}
	return num / den
}

// The metrics of every evaluation.
const (
	SuccessRate = "success_rate"
	MeanScore   = "mean_score"
	MeanTurns   = "mean_turns"
)

// ratios returns the metrics of tasks that were played n times each:
//
//	success_rate   share of the episodes that succeeded
//	mean_score     mean reward of the episodes
//	mean_turns     mean replies of the episodes
//	mean@n         mean over tasks of a task's mean reward
//	best@n         mean over tasks of a task's best reward
//	pass@k         see PassAtK
//	outcome/NAME   share of the episodes with the outcome
//
// Episodes lost to servers or the engine count only in the outcomes. best@n
// excludes tasks with a lost episode, because the best of fewer samples is
// lower even for an equally good agent.
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
	for _, o := range slices.Sorted(maps.Keys(tallyOf(tasks))) {
		add("outcome/"+string(o), func(s sums) (float64, float64) {
			return float64(s.outcomes[o]), float64(s.all)
		})
	}
	return all
}

// sums holds totals over a task's trials.
type sums struct {
	all, played, successes, turns int
	score, best                   float64
	outcomes                      Tally
}

func sumsOf(t *Task) sums {
	s := sums{outcomes: Tally{}}
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

// PassAtK estimates pass@k, the probability that at least one of k samples of a
// task succeeds, from n samples of which c succeeded. The unbiased estimator is
//
//	pass@k = 1 - C(n-c, k) / C(n, k)
//
// (Chen et al., "Evaluating Large Language Models Trained on Code",
// arXiv:2107.03374, section 2.1), computed as the product
// 1 - Π_{i=n-c+1..n} (1 - k/i), which does not overflow. It requires k ≤ n;
// callers exclude tasks with fewer samples.
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

// PassKs returns the k reported for n samples: the powers of two below n, and n.
func PassKs(n int) []int {
	var ks []int
	for k := 1; k < n; k *= 2 {
		ks = append(ks, k)
	}
	return append(ks, n)
}
