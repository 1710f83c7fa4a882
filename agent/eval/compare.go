package eval

import (
	"fmt"
	"math"
	"strings"
)

// Change is a metric of two results. Difference is B - A.
type Change struct {
	A          float64 `json:"a"`
	B          float64 `json:"b"`
	Difference float64 `json:"difference"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
}

// Comparison is what lies between two results.
type Comparison struct {
	Env   string `json:"env"`
	Tasks int    `json:"tasks"` // that both have; 0: none, and the results are compared as wholes
	OnlyA int    `json:"only_a"`
	OnlyB int    `json:"only_b"`
	// Of the tasks that both have, by their mean score.
	Better int `json:"better"`
	Worse  int `json:"worse"`
	Equal  int `json:"equal"`
	// UnknownStarts counts the tasks of both whose first observations were not
	// compared: a result of an older version does not have them, nor has a task
	// that began differently each time.
	UnknownStarts int               `json:"unknown_starts"`
	Metrics       map[string]Change `json:"metrics"`
	// In what the contracts differ; empty unless that was allowed.
	Contract []Difference `json:"contract_differences,omitempty"`
}

// ContractError refuses to compare results taken under different conditions.
type ContractError struct{ Differences []Difference }

// Error names every part that differs.
func (e *ContractError) Error() string {
	lines := []string{"the results were not taken under the same conditions, so their difference is not the model's alone:"}
	for _, d := range e.Differences {
		lines = append(lines, "  "+d.String())
	}
	return strings.Join(lines, "\n")
}

// Compare compares two results, task by task where both have a task. Results
// whose contracts differ, or whose tasks begin differently under the same ids,
// are a *ContractError, unless anyway allows it.
//
// Intervals are those of Figures, of the difference: a resample draws tasks
// that both have and takes both results' trials of them, so that what makes a
// task hard falls out. Where the results share no task each is resampled by
// itself.
func Compare(a, b Result, anyway bool) (Comparison, error) {
	c := Comparison{Env: a.Env, Metrics: map[string]Change{}}
	if a.Env != b.Env {
		c.Env = a.Env + ", " + b.Env
	}
	if err := a.check("the first"); err != nil {
		return c, err
	}
	if err := b.check("the second"); err != nil {
		return c, err
	}
	diff := Diff(a.Contract, b.Contract)
	left, right := shared(a.PerTask, b.PerTask)
	other, unknown := compareStarts(left, right)
	if c.UnknownStarts = unknown; len(other) > 0 {
		diff = append(diff, startsMismatch(a, b, len(left), other))
	}
	if len(diff) > 0 && !anyway {
		return c, &ContractError{diff}
	}
	c.Contract = diff
	c.Tasks, c.OnlyA, c.OnlyB = len(left), len(a.PerTask)-len(left), len(b.PerTask)-len(right)
	for i := range left {
		switch x, y := meanScore(&left[i]), meanScore(&right[i]); {
		case y > x:
			c.Better++
		case y < x:
			c.Worse++
		case y == x:
			c.Equal++
		}
	}
	paired := len(left) > 0
	if !paired {
		left, right = a.PerTask, b.PerTask
	}
	type pair struct {
		x, y   *ratio
		change Change
		values []float64
	}
	var pairs []*pair
	byName := map[string]*ratio{}
	for _, r := range ratios(right, b.Samples) {
		byName[r.name] = r
	}
	for _, x := range ratios(left, a.Samples) {
		y := byName[x.name]
		if y == nil {
			continue
		}
		u, okA := x.value()
		v, okB := y.value()
		if okA && okB {
			pairs = append(pairs, &pair{x: x, y: y, change: Change{A: u, B: v, Difference: v - u}})
		}
	}
	if paired {
		resample(len(left), a.Seed, func(drawn []int) {
			for _, p := range pairs {
				p.values = append(p.values, p.y.over(drawn)-p.x.over(drawn))
			}
		})
	} else {
		resample(len(left), a.Seed, func(drawn []int) {
			for _, p := range pairs {
				p.values = append(p.values, -p.x.over(drawn))
			}
		})
		i := 0
		resample(len(right), b.Seed+1, func(drawn []int) { // +1: equal seeds would draw alike
			for _, p := range pairs {
				p.values[i] += p.y.over(drawn)
			}
			i++
		})
	}
	for _, p := range pairs {
		p.change.Low, p.change.High = interval(p.values, p.change.Difference)
		c.Metrics[p.x.name] = p.change
	}
	return c, nil
}

// check reports what keeps a result from being compared.
func (r *Result) check(which string) error {
	if len(r.PerTask) == 0 || r.Samples < 1 {
		return fmt.Errorf("%s result has no tasks: it is not what eval --json prints", which)
	}
	for _, t := range r.PerTask {
		if len(t.Trials) == 0 {
			return fmt.Errorf("%s result: task %s has no trials", which, t.ID)
		}
		for _, x := range t.Trials {
			if math.IsNaN(x.Score) || math.IsInf(x.Score, 0) {
				return fmt.Errorf("%s result: task %s has a score of %v", which, t.ID, x.Score)
			}
		}
	}
	if err := r.Contract.Check(); err != nil {
		return fmt.Errorf("%s result: %w", which, err)
	}
	return nil
}

// shared are the tasks that both lists have, in the order of the first.
func shared(a, b []Task) (left, right []Task) {
	byID := map[string]Task{}
	for _, t := range b {
		byID[t.ID] = t
	}
	for _, t := range a {
		if u, ok := byID[t.ID]; ok {
			left, right = append(left, t), append(right, u)
		}
	}
	return left, right
}

// meanScore is NaN for a task whose trials were all lost.
func meanScore(t *Task) float64 {
	s := sumsOf(t)
	return s.score / float64(s.played)
}

// String is the comparison for people.
func (c Comparison) String() string {
	var b strings.Builder
	for _, d := range c.Contract {
		fmt.Fprintf(&b, "not the same conditions: %s\n", d)
	}
	if c.Tasks > 0 {
		fmt.Fprintf(&b, "%s: %d tasks in both: B scores better on %d, worse on %d, alike on %d", c.Env, c.Tasks, c.Better, c.Worse, c.Equal)
	} else {
		fmt.Fprintf(&b, "%s: no task in both, so the results are compared as wholes", c.Env)
	}
	if c.OnlyA+c.OnlyB > 0 {
		fmt.Fprintf(&b, "; %d only in A, %d only in B", c.OnlyA, c.OnlyB)
	}
	if c.UnknownStarts > 0 {
		fmt.Fprintf(&b, "\nthe first observations of %d tasks are not known in both results, so whether these are the same tasks is not checked", c.UnknownStarts)
	}
	fmt.Fprintf(&b, "\n\n  %-24s %9s %9s %9s  %s\n", "metric", "A", "B", "B - A", "95% interval")
	for _, name := range sortedMetrics(c.Metrics) {
		m := c.Metrics[name]
		fmt.Fprintf(&b, "  %-24s %9.3f %9.3f %+9.3f  %+.3f to %+.3f\n", name, m.A, m.B, m.Difference, m.Low, m.High)
	}
	return b.String()
}
