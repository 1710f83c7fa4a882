// Package registry maps names to implementations: environments, prompt
// formats, estimators, losses, reward signals, model families. Registration
// happens in init functions; look-ups may then run concurrently.
package registry

import (
	"fmt"
	"slices"
	"strings"
)

// Registry holds the implementations of one kind of thing.
type Registry[T any] struct {
	kind  string
	items map[string]T
}

// New returns an empty registry. Kind names what it holds in error messages,
// such as "advantage estimator".
func New[T any](kind string) *Registry[T] {
	return &Registry[T]{kind: kind, items: map[string]T{}}
}

// Register adds an implementation. A name taken already is a programmer's
// error and panics.
func (r *Registry[T]) Register(name string, v T) {
	if _, taken := r.items[name]; taken || name == "" {
		panic(fmt.Sprintf("registry: %s %q registered twice or without a name", r.kind, name))
	}
	r.items[name] = v
}

// Lookup returns the implementation called name; the error of a miss lists
// the names there are.
func (r *Registry[T]) Lookup(name string) (T, error) {
	v, ok := r.items[name]
	if !ok {
		return v, fmt.Errorf("unknown %s %q (known: %s)", r.kind, name, strings.Join(r.Names(), ", "))
	}
	return v, nil
}

// Names lists what is registered, sorted.
func (r *Registry[T]) Names() []string {
	names := make([]string, 0, len(r.items))
	for name := range r.items {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
