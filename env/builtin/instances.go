package builtin

import (
	"fmt"
	"sync"
)

// instances holds the players of one server under ids from 0 upward that are
// never used twice, as the originals number them.
type instances[T any] struct {
	limit int

	mu   sync.Mutex
	next int64        // guarded by mu
	all  map[int64]*T // guarded by mu
}

func newInstances[T any](limit int) *instances[T] {
	return &instances[T]{limit: limit, all: map[int64]*T{}}
}

// add keeps what build makes for the next id. A full server is an error, not
// an instance handed out twice.
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

// get finds an instance, or gives the error the originals answer.
func (in *instances[T]) get(id int64) (*T, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if v, ok := in.all[id]; ok {
		return v, nil
	}
	return nil, gameError(fmt.Sprintf("The id %d is not valid.", id))
}

// remove forgets an instance and reports whether there was one.
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
