package eval

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Intervals are 95 % percentile bootstrap intervals (Efron, "Bootstrap
// Methods: Another Look at the Jackknife", Ann. Statist. 7, 1979) over tasks:
// a resample draws as many tasks as there are, with replacement, each with all
// its trials, because trials of one task are not independent.
//
// If all tasks have the same result, the interval is a single point, although
// results on other tasks may differ.

const (
	resamples = 2000
	tail      = 0.025
)

// estimate holds a metric of all tasks and of every resample.
type estimate struct {
	name      string
	value     float64
	resampled []float64 // NaN where a resample has no task with this metric
}

// estimates returns the metrics of tasks that were played n times each. Metrics
// without a value are omitted.
func estimates(tasks []Task, n int, seed uint64) []estimate {
	rs := ratios(tasks, n)
	out := make([]estimate, len(rs))
	drawn := make([]int, len(tasks))
	for i := range drawn {
		drawn[i] = i
	}
	for i, r := range rs {
		out[i] = estimate{name: r.name, value: r.over(drawn)}
	}
	rng := rand.New(rand.NewPCG(seed, 0x6576616c)) // "eval"
	for range resamples {
		for i := range drawn {
			drawn[i] = rng.IntN(len(tasks))
		}
		for i, r := range rs {
			out[i].resampled = append(out[i].resampled, r.over(drawn))
		}
	}
	return slices.DeleteFunc(out, func(e estimate) bool { return math.IsNaN(e.value) })
}

// interval returns the quantiles of the resampled values without NaN, or v twice
// if there are none.
func interval(values []float64, v float64) (lo, hi float64) {
	values = slices.DeleteFunc(values, math.IsNaN)
	if len(values) == 0 {
		return v, v
	}
	slices.Sort(values)
	return quantile(values, tail), quantile(values, 1-tail)
}

// quantile interpolates linearly between sorted values.
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

// Figures returns the metrics of tasks that were played n times each. Metrics
// without a value are omitted.
func Figures(tasks []Task, n int, seed uint64) map[string]Figure {
	out := map[string]Figure{}
	for _, e := range estimates(tasks, n, seed) {
		lo, hi := interval(e.resampled, e.value)
		out[e.name] = Figure{e.value, lo, hi}
	}
	return out
}
