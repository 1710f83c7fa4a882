package eval

import (
	"fmt"
	"math"
	"strings"

	"github.com/openmanus/openmanus/internal/textwidth"
)

// Change is a metric in two results. Difference is B - A.
type Change struct {
	A          float64 `json:"a"`
	B          float64 `json:"b"`
	Difference float64 `json:"difference"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
}

// Comparison is the comparison of two results.
type Comparison struct {
	Env   string `json:"env"`
	Tasks int    `json:"tasks"` // number of tasks that are in both results; if 0, all tasks of A are compared with all tasks of B
	OnlyA int    `json:"only_a"`
	OnlyB int    `json:"only_b"`
	// Better, Worse and Equal count the common tasks by their mean score in B relative to A.
	Better int `json:"better"`
	Worse  int `json:"worse"`
	Equal  int `json:"equal"`
	// UnknownStarts counts the common tasks without a known first observation in A
	// or B. Results of older versions record no first observation, and a task with
	// random starts has several.
	UnknownStarts int               `json:"unknown_starts"`
	Metrics       map[string]Change `json:"metrics"`
	// Differences of the contracts; empty unless differing contracts were allowed.
	Contract []Difference `json:"contract_differences,omitempty"`
}

// ContractError reports results that were taken under different conditions.
type ContractError struct{ Differences []Difference }

// Error lists all differing parts.
func (e *ContractError) Error() string {
	lines := []string{"the results were taken under different conditions, so their difference is not due to the model alone:"}
	for _, d := range e.Differences {
		lines = append(lines, "  "+d.String())
	}
	return strings.Join(lines, "\n")
}

// Compare compares two results, pairwise for tasks that both have. It returns a
// *ContractError if the contracts differ or tasks with equal ids have different
// first observations, unless the parameter anyway is true.
//
// Intervals are bootstraps of the difference: a resample draws common tasks with
// the trials of both results, so that differences in difficulty cancel. Results
// without a common task are resampled separately.
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
	seed := a.Seed // one seed for both results, so that both are resampled with the same tasks
	if len(left) == 0 {
		left, right, seed = a.PerTask, b.PerTask, b.Seed+1
	}
	inA := map[string]estimate{}
	for _, x := range estimates(left, a.Samples, a.Seed) {
		inA[x.name] = x
	}
	for _, y := range estimates(right, b.Samples, seed) {
		x, ok := inA[y.name]
		if !ok {
			continue
		}
		m := Change{A: x.value, B: y.value, Difference: y.value - x.value}
		for i := range y.resampled {
			y.resampled[i] -= x.resampled[i]
		}
		m.Low, m.High = interval(y.resampled, m.Difference)
		c.Metrics[y.name] = m
	}
	return c, nil
}

// check returns an error if the result cannot be compared.
func (r *Result) check(which string) error {
	if len(r.PerTask) == 0 || r.Samples < 1 {
		return fmt.Errorf("%s result has no tasks: give a file written by eval --out or --json", which)
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

// shared returns the tasks in both lists, in the order of the first.
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

// meanScore returns NaN for a task whose trials were all lost.
func meanScore(t *Task) float64 {
	s := sumsOf(t)
	return s.score / float64(s.played)
}

// String returns the comparison as a table.
func (c Comparison) String() string {
	var b strings.Builder
	for _, d := range c.Contract {
		fmt.Fprintf(&b, "different conditions: %s\n", d)
	}
	if c.Tasks > 0 {
		fmt.Fprintf(&b, "%s: %s in both: B scores better on %d, worse on %d, alike on %d", c.Env, textwidth.Count(c.Tasks, "task"), c.Better, c.Worse, c.Equal)
	} else {
		fmt.Fprintf(&b, "%s: no task in both, so the results are compared as wholes", c.Env)
	}
	if c.OnlyA+c.OnlyB > 0 {
		fmt.Fprintf(&b, "; %d only in A, %d only in B", c.OnlyA, c.OnlyB)
	}
	if c.UnknownStarts > 0 {
		fmt.Fprintf(&b, "\nthe first observations of %s are not known in both results, so these tasks may differ", textwidth.Count(c.UnknownStarts, "task"))
	}
	fmt.Fprintf(&b, "\n\n  %-24s %9s %9s %9s  %s\n", "metric", "A", "B", "B - A", "95% interval")
	for _, name := range sortedMetrics(c.Metrics) {
		m := c.Metrics[name]
		fmt.Fprintf(&b, "  %-24s %9.3f %9.3f %+9.3f  %+.3f to %+.3f\n", name, m.A, m.B, m.Difference, m.Low, m.High)
	}
	return b.String()
}
