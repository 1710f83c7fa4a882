package data

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// TaskSet counts the rows of each task by environment and index. Item ids are
// ignored, since a task may have several.
type TaskSet map[string]map[int]int

// TasksOf returns the set of tasks.
func TasksOf(tasks []Task) TaskSet {
	s := TaskSet{}
	for i := range tasks {
		s.Add(tasks[i].Env, tasks[i].Index)
	}
	return s
}

// Add counts a row of a task. It ignores NoIndex.
func (s TaskSet) Add(env string, index int) {
	if index == NoIndex {
		return
	}
	of := s[env]
	if of == nil {
		of = map[int]int{}
		s[env] = of
	}
	of[index]++
}

// Has reports whether the set holds a task.
func (s TaskSet) Has(env string, index int) bool { return s[env][index] > 0 }

// Overlap describes the tasks that two sets share in one environment. Shared tasks
// of training and test data are a leak.
type Overlap struct {
	Env     string `json:"env"`
	Indices []int  `json:"indices"` // ascending
	Tasks   int    `json:"tasks"`   // distinct tasks of the second set in that environment
	Rows    int    `json:"rows"`    // rows of the second set with shared tasks
}

// Shared returns the tasks of the set b that are also in the set a, by environment.
func Shared(a, b TaskSet) []Overlap {
	var out []Overlap
	for _, env := range slices.Sorted(maps.Keys(b)) {
		o := Overlap{Env: env, Tasks: len(b[env])}
		for index, rows := range b[env] {
			if a.Has(env, index) {
				o.Indices = append(o.Indices, index)
				o.Rows += rows
			}
		}
		if len(o.Indices) > 0 {
			slices.Sort(o.Indices)
			out = append(out, o)
		}
	}
	return out
}

// DropTasks returns the tasks for which the function keep returns true, and
// counts the other tasks by their ID.
func DropTasks(tasks []Task, keep func(Task) bool) (kept []Task, dropped map[string]int) {
	dropped = map[string]int{}
	for _, t := range tasks {
		if keep(t) {
			kept = append(kept, t)
		} else {
			dropped[t.ID]++
		}
	}
	return kept, dropped
}

// ParseRange parses a task index or a range of them, such as "17" or "0-9".
func ParseRange(s string) (lo, hi int, err error) {
	first, last, ranged := strings.Cut(s, "-")
	a, err := strconv.ParseUint(strings.TrimSpace(first), 10, 31)
	b := a
	if err == nil && ranged {
		b, err = strconv.ParseUint(strings.TrimSpace(last), 10, 31)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%q is not an index or a range such as 0-9", s)
	}
	if b < a {
		return 0, 0, fmt.Errorf("range %q is descending", s)
	}
	return int(a), int(b), nil
}
