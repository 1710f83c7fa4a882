package eval

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Intervals are 95 % percentile bootstrap intervals (Efron, "Bootstrap
// Methods: Another Look at the Jackknife", Ann. Statist. 7, 1979) over tasks:
// a resample draws as many tasks as there are, with replacement, each with all
// its trials, since trials of one task are not independent of each other.
//
// Where all tasks ended alike, the interval is a point. That says that the
// tasks show no spread, not that there is none.

const (
	resamples = 2000
	tail      = 0.025
)

// resample calls each with the tasks of one resample after the other.
func resample(tasks int, seed uint64, each func(drawn []int)) {
	rng := rand.New(rand.NewPCG(seed, 0x6576616c)) // "eval"
	drawn := make([]int, tasks)
	for range resamples {
		for i := range drawn {
			drawn[i] = rng.IntN(tasks)
		}
		each(drawn)
	}
}

// over is the metric over some of the tasks, a task counted as often as it is
// drawn.
func (r *ratio) over(drawn []int) float64 {
	var num, den float64
	for _, i := range drawn {
		num += r.num[i]
		den += r.den[i]
	}
	return num / den // NaN where the metric has no task in this resample
}

// interval are the quantiles of what the resamples gave. Resamples without a
// value are left out; v stands in where none has one.
func interval(values []float64, v float64) (lo, hi float64) {
	values = slices.DeleteFunc(values, math.IsNaN)
	if len(values) == 0 {
		return v, v
	}
	slices.Sort(values)
	return quantile(values, tail), quantile(values, 1-tail)
}

// quantile of sorted values, linear between them.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Figure is a metric with its interval.
type Figure struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Figures are the metrics of tasks that were played n times each. A metric of
// nothing is left out.
func Figures(tasks []Task, n int, seed uint64) map[string]Figure {
	out := map[string]Figure{}
	rs := ratios(tasks, n)
	values := make([][]float64, len(rs))
	if len(tasks) > 0 {
		resample(len(tasks), seed, func(drawn []int) {
			for i, r := range rs {
				values[i] = append(values[i], r.over(drawn))
			}
		})
	}
	for i, r := range rs {
		v, ok := r.value()
		if !ok {
			continue
		}
		lo, hi := interval(values[i], v)
		out[r.name] = Figure{v, lo, hi}
	}
	return out
}
