package curriculum

// Sampling of tasks by their success rate:
//
//	p_i = (S_i + 1) / (N_i + 2)            successes S of N episodes, smoothed
//	w_i = max(p_i (1 - p_i), 0.02)         drawn without replacement
//
// where S and N shrink by a fifth at every visit, since the policy changes. A group
// estimator learns from the variance p(1-p) of the success: it is largest if half of
// the episodes succeed, and 0 if all or none do. The minimum weight makes every task
// return eventually. A new task has p = 1/2, the highest weight. (Variance as the
// weight of a task: Foster and Foerster, Learning to Reason at the Frontier of
// Learnability, arXiv:2502.12272.)
//
// Differs from the paper in: rates come from the training episodes, without extra
// rollouts.
//
// A task without a success in Options.Failures consecutive visits rests for
// Options.Rest steps.

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/openmanus/openmanus/algo/track"
)

const (
	keep        = 0.8  // factor by which a visit shrinks the earlier counts
	leastWeight = 0.02 // minimum weight of a task
)

// Options of a Sampler.
type Options struct {
	Seed      uint64
	BySuccess bool // draw tasks by success rate; otherwise take them in the order of the data
	Failures  int  // consecutive visits without a success after which a task rests; 0: never
	Rest      int  // number of steps of a task's rest
}

// Used reports whether the options need a Sampler.
func (o Options) Used() bool { return o.BySuccess || o.Failures > 0 }

// Seen holds the results of one task.
type Seen struct {
	Task      int     `json:"task"`
	Episodes  float64 `json:"episodes"` // Episodes and Successes shrink at every visit
	Successes float64 `json:"successes"`
	Failed    int     `json:"failed"` // consecutive visits without a success
	Until     int     `json:"until"`  // last step of the task's rest
}

// State is the state of a Sampler in a checkpoint.
type State struct {
	Draws uint64 `json:"draws"`
	Seen  []Seen `json:"seen"` // results, without the tasks that have no results yet
}

// Sampler draws tasks.
type Sampler struct {
	o     Options
	draws uint64
	seen  []Seen  // results, indexed by task
	rest  int     // number of resting tasks at the last draw
	rate  float64 // mean success rate of the tasks of the last draw
}

// New makes a Sampler of n tasks that have no results yet.
func New(n int, o Options) *Sampler {
	s := &Sampler{o: o, seen: make([]Seen, n)}
	for i := range s.seen {
		s.seen[i].Task = i
	}
	return s
}

// Draw returns k tasks for a step. Without Options.BySuccess it takes them from the function
// next, which returns the tasks in the order of the data, again and again. Draw leaves out
// resting tasks, unless fewer than k tasks are not resting.
func (s *Sampler) Draw(step, k int, next func() int) []int {
	s.draws++
	awake := 0
	for i := range s.seen {
		if s.seen[i].Until < step {
			awake++
		}
	}
	s.rest = len(s.seen) - awake
	enough := awake >= min(k, len(s.seen))
	resting := func(i int) bool { return enough && s.seen[i].Until >= step }
	var out []int
	if s.o.BySuccess {
		out = s.bySuccess(k, resting)
	} else {
		for len(out) < k {
			if i := next(); !resting(i) {
				out = append(out, i)
			}
		}
	}
	s.rate = 0
	for _, i := range out {
		s.rate += s.seen[i].rate() / float64(len(out))
	}
	return out
}

// bySuccess draws tasks without replacement. If k exceeds the number of tasks, it draws each once and starts again
// with all of them.
func (s *Sampler) bySuccess(k int, resting func(int) bool) []int {
	rng := rand.NewPCG(s.o.Seed, s.draws)
	var out []int
	for len(out) < k {
		weights := make([]float64, len(s.seen))
		total := 0.0
		left := 0
		for i := range s.seen {
			if !resting(i) {
				weights[i] = s.seen[i].weight()
				total += weights[i]
				left++
			}
		}
		for ; left > 0 && len(out) < k; left-- {
			i := pick(weights, total*float64(rng.Uint64()>>11)/(1<<53))
			total -= weights[i]
			weights[i] = 0
			out = append(out, i)
		}
	}
	return out
}

// pick returns the first index at which the cumulative sum of the weights exceeds x. If rounding keeps the sum at or
// below x, it returns the last index with a positive weight.
func pick(weights []float64, x float64) int {
	last := 0
	for i, w := range weights {
		if w == 0 {
			continue
		}
		if last = i; x < w {
			break
		}
		x -= w
	}
	return last
}

func (t *Seen) rate() float64 { return (t.Successes + 1) / (t.Episodes + 2) }

func (t *Seen) weight() float64 {
	p := t.rate()
	return max(p*(1-p), leastWeight)
}

// Report adds the results of a task's episodes in a step, without episodes that were
// lost to the infrastructure.
func (s *Sampler) Report(step, task, episodes, successes int) {
	if episodes == 0 {
		return
	}
	t := &s.seen[task]
	t.Episodes = keep*t.Episodes + float64(episodes)
	t.Successes = keep*t.Successes + float64(successes)
	if t.Failed++; successes > 0 {
		t.Failed = 0
	}
	if s.o.Failures > 0 && t.Failed >= s.o.Failures {
		t.Failed, t.Until = 0, step+s.o.Rest
	}
}

// State returns a copy of the Sampler's state.
func (s *Sampler) State() State {
	st := State{Draws: s.draws}
	for _, t := range s.seen {
		if t != (Seen{Task: t.Task}) {
			st.Seen = append(st.Seen, t)
		}
	}
	return st
}

// Restore continues from a state.
func (s *Sampler) Restore(st State) error {
	fresh := New(len(s.seen), s.o)
	fresh.draws = st.Draws
	for _, t := range st.Seen {
		if t.Task < 0 || t.Task >= len(s.seen) || !(t.Episodes >= 0 && t.Successes >= 0 && t.Successes <= t.Episodes) {
			return fmt.Errorf("curriculum: %+v is not a valid state of a task in a run of %d tasks", t, len(s.seen))
		}
		fresh.seen[t.Task] = t
	}
	*s = *fresh
	return nil
}

// Metrics returns the metrics curriculum/* of the last draw.
func (s *Sampler) Metrics() map[string]float64 {
	seen := slices.DeleteFunc(slices.Clone(s.seen), func(t Seen) bool { return t.Episodes == 0 })
	return map[string]float64{
		track.TasksSeen:        float64(len(seen)),
		track.TasksResting:     float64(s.rest),
		track.DrawnSuccessRate: s.rate,
	}
}
