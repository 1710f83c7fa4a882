package data

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

// SampleTasks returns n of the tasks, in their order, and all tasks if there are at
// most n. The choice depends only on the seed and the number of tasks.
func SampleTasks(tasks []Task, n int, seed uint64) []Task {
	if n >= len(tasks) {
		return tasks
	}
	// The first n places of a Fisher-Yates shuffle, see Order.arrange.
	places := make([]int, len(tasks))
	for i := range places {
		places[i] = i
	}
	r := rand.NewPCG(seed, uint64(len(tasks)))
	for i := range n {
		j, _ := bits.Mul64(r.Uint64(), uint64(len(places)-i))
		places[i], places[i+int(j)] = places[i+int(j)], places[i]
	}
	chosen := places[:n]
	slices.Sort(chosen)
	out := make([]Task, n)
	for i, place := range chosen {
		out[i] = tasks[place]
	}
	return out
}
