package builtin

import (
	"fmt"
	"sync"
)

// instances contains the instances of a server by id. As in AgentGym, ids count
// from 0 and are not reused. Requests for the same instance are serialized.
type instances[G any] struct {
	limit int
	over  func(g *G) bool // reports whether the game has ended and accepts only a reset

	mu   sync.Mutex
	next int64                  // guarded by mu
	all  map[int64]*instance[G] // guarded by mu
}

type instance[G any] struct {
	mu   sync.Mutex
	game G // guarded by mu
}

func newInstances[G any](limit int, over func(g *G) bool) *instances[G] {
	return &instances[G]{limit: limit, over: over, all: map[int64]*instance[G]{}}
}

// add stores the result of build under the next id. It fails if the server is full.
func (in *instances[G]) add(build func(id int64) G) (int64, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.all) >= in.limit {
		return 0, gameError(fmt.Sprintf("The server is at its limit of %d environments.", in.limit))
	}
	id := in.next
	in.next++
	in.all[id] = &instance[G]{game: build(id)}
	return id, nil
}

// remove deletes an instance and reports whether it existed.
func (in *instances[G]) remove(id int64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	_, ok := in.all[id]
	delete(in.all, id)
	return ok
}

// with returns the result of f on the locked game. It fails for an unknown id and,
// unless restart is true, for a game that is over.
func (in *instances[G]) with(id int64, restart bool, f func(g *G) (any, error)) (any, error) {
	in.mu.Lock()
	found := in.all[id]
	in.mu.Unlock()
	if found == nil {
		return nil, gameError(fmt.Sprintf("The id %d is not valid.", id))
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	if !restart && in.over(&found.game) {
		return nil, gameError(fmt.Sprintf("The task with environment %d has finished.", id))
	}
	return f(&found.game)
}

// create returns an endpoint that adds an instance and replies with its id.
func (in *instances[G]) create(build func(id int64) G) endpoint {
	return func(*request) (any, error) {
		id, err := in.add(build)
		return map[string]int64{"id": id}, err
	}
}

// reset returns an endpoint that calls start for the game with the id in the body. The
// argument n of start is the integer in the field that key names. If the field is optional,
// n is 0 if the field is absent and nil if its value is null.
func (in *instances[G]) reset(key string, optional bool, start func(g *G, id int64, n *int64) (any, error)) endpoint {
	return func(r *request) (any, error) {
		if err := r.body(); err != nil {
			return nil, err
		}
		id, n := r.integer("id", false), r.integer(key, optional)
		if err := r.err(); err != nil {
			return nil, err
		}
		return in.with(*id, true, func(g *G) (any, error) { return start(g, *id, n) })
	}
}

// step returns an endpoint that performs the action in the body.
func (in *instances[G]) step(act func(g *G, id int64, action string) (any, error)) endpoint {
	return func(r *request) (any, error) {
		if err := r.body(); err != nil {
			return nil, err
		}
		id, action := r.integer("id", false), r.str("action", false)
		if err := r.err(); err != nil {
			return nil, err
		}
		return in.with(*id, false, func(g *G) (any, error) { return act(g, *id, action) })
	}
}

// query returns an endpoint that shows the game with the id in the query.
func (in *instances[G]) query(show func(g *G) (any, error)) endpoint {
	return func(r *request) (any, error) {
		id, err := r.queryID()
		if err != nil {
			return nil, err
		}
		return in.with(id, false, show)
	}
}

// constant returns an endpoint with a fixed reply.
func constant(reply any) endpoint {
	return func(*request) (any, error) { return reply, nil }
}

// gameError is an error with a text of the protocol, sent as {"error": text}.
type gameError string

func (e gameError) Error() string { return string(e) }
