package data

import (
	"maps"
	"slices"
)

// TaskSet says which tasks there are, by environment and index, and how many
// rows stand for each. Item ids do not count: the same task may have several.
type TaskSet map[string]map[int]int

// TasksOf is the set of tasks.
func TasksOf(tasks []Task) TaskSet {
	s := TaskSet{}
	for i := range tasks {
		s.Add(tasks[i].Env, tasks[i].Index)
	}
	return s
}

// Add counts a row for a task; one with NoIndex is none.
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

// Overlap is what two sets of tasks share in one environment: where one is
// trained on and the other measures, a leak.
type Overlap struct {
	Env     string `json:"env"`
	Indices []int  `json:"indices"` // ascending
	Tasks   int    `json:"tasks"`   // distinct tasks of the second set in that environment
	Rows    int    `json:"rows"`    // rows of the second set that stand for shared tasks
}

// Shared finds the tasks of b that a has too, environment by environment.
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

// DropTasks returns the tasks for which keep is true and how many rows of each
// other item there were, so that what a run leaves out can be reported.
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
