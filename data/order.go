package data

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Order determines the next task: each task once per epoch, in an order that
// depends only on the seed and the number of the epoch. Its State is a few numbers,
// from which Restore resumes exactly.
type Order struct {
	state OrderState
	perm  []int // permutation of the state's epoch
}

// OrderState is the position of an Order, as stored in checkpoints.
type OrderState struct {
	Seed     uint64 `json:"seed"`
	Shuffle  bool   `json:"shuffle"`
	Tasks    int    `json:"tasks"`
	Epoch    int    `json:"epoch"`    // from 0
	Position int    `json:"position"` // tasks already drawn in this epoch
}

// NewOrder returns an order of n tasks at its beginning. Without shuffle every
// epoch has the order of the data.
func NewOrder(n int, shuffle bool, seed uint64) (*Order, error) {
	if n < 1 {
		return nil, fmt.Errorf("order of %d tasks", n)
	}
	o := &Order{state: OrderState{Seed: seed, Shuffle: shuffle, Tasks: n}, perm: make([]int, n)}
	o.arrange()
	return o, nil
}

// Restore resumes from a state, which includes the seed. The number of tasks
// must not have changed, since positions refer to tasks.
func (o *Order) Restore(s OrderState) error {
	n := len(o.perm)
	switch {
	case s.Tasks != n:
		return fmt.Errorf("the data changed: the run was drawing from %d tasks, now there are %d: resume with the same data", s.Tasks, n)
	case s.Epoch < 0 || s.Position < 0 || s.Position > n:
		return fmt.Errorf("epoch %d, position %d of %d is not a state of an order", s.Epoch, s.Position, n)
	}
	o.state = s
	o.arrange()
	return nil
}

// arrange computes the permutation of the state's epoch (Fisher-Yates). It does not
// use rand.Shuffle, whose draws may change with the Go version. The sequence of a
// PCG is fixed by its definition.
func (o *Order) arrange() {
	for i := range o.perm {
		o.perm[i] = i
	}
	if !o.state.Shuffle {
		return
	}
	r := rand.NewPCG(o.state.Seed, uint64(o.state.Epoch))
	for i := len(o.perm) - 1; i > 0; i-- {
		j, _ := bits.Mul64(r.Uint64(), uint64(i)+1) // in [0, i]; the bias is below 2^-32
		o.perm[i], o.perm[j] = o.perm[j], o.perm[i]
	}
}

// Next returns the indices of the next k tasks. They may span epochs, so that no
// task is skipped if k does not divide the number of tasks.
func (o *Order) Next(k int) []int {
	out := make([]int, k)
	for i := range out {
		if o.state.Position == len(o.perm) {
			o.state.Epoch++
			o.state.Position = 0
			o.arrange()
		}
		out[i] = o.perm[o.state.Position]
		o.state.Position++
	}
	return out
}

// State returns the position of the order.
func (o *Order) State() OrderState { return o.state }

// SampleTasks returns n of the tasks, in their order, or all tasks if there are at
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
