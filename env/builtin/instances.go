package builtin

import (
	"fmt"
	"sync"
)

// instances holds the instances of a server by id. As in the originals, ids count
// from 0 and are not reused.
type instances[T any] struct {
	limit int

	mu   sync.Mutex
	next int64        // guarded by mu
	all  map[int64]*T // guarded by mu
}

func newInstances[T any](limit int) *instances[T] {
	return &instances[T]{limit: limit, all: map[int64]*T{}}
}

// add stores build's result under the next id. It fails if the server is full.
func (in *instances[T]) add(build func(id int64) *T) (int64, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.all) >= in.limit {
		return 0, gameError(fmt.Sprintf("The server holds its limit of %d environments.", in.limit))
	}
	id := in.next
	in.next++
	in.all[id] = build(id)
	return id, nil
}

// get returns an instance, or the error of the originals for an unknown id.
func (in *instances[T]) get(id int64) (*T, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if v, ok := in.all[id]; ok {
		return v, nil
	}
	return nil, gameError(fmt.Sprintf("The id %d is not valid.", id))
}

// remove deletes an instance and reports whether it existed.
func (in *instances[T]) remove(id int64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	_, ok := in.all[id]
	delete(in.all, id)
	return ok
}

// gameError is an error whose text is part of the protocol: form E1.
type gameError string

func (e gameError) Error() string { return string(e) }
