// Package registry maps names to implementations: environments, prompt
// formats, estimators, losses, score functions, metric sinks, model families.
//
// An entry declares its name, aliases, one line of documentation and its
// parameters. Validation, decoding and documentation of configurations are derived
// from these declarations.
//
// Entries are added in init functions; look-ups may then run concurrently.
package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Registry holds the implementations of one kind of thing.
type Registry[T any] struct {
	kind  string
	items map[string]item[T]
	names map[string]string // maps every name and alias to the name
}

type item[T any] struct {
	entry Entry
	value T
}

// New returns an empty registry. The argument kind is the word for an
// implementation in error messages, such as "advantage estimator".
func New[T any](kind string) *Registry[T] {
	return &Registry[T]{kind: kind, items: map[string]item[T]{}, names: map[string]string{}}
}

// Register adds an implementation without documentation or parameters.
func (r *Registry[T]) Register(name string, v T) { r.Add(Entry{Name: name}, v) }

// Add adds an implementation with its declaration. It panics if the name or an
// alias is empty or taken.
func (r *Registry[T]) Add(e Entry, v T) {
	for _, name := range append([]string{e.Name}, e.Aliases...) {
		if _, taken := r.names[name]; taken || name == "" {
			panic(fmt.Sprintf("registry: %s %q registered twice or without a name", r.kind, name))
		}
		r.names[name] = e.Name
	}
	r.items[e.Name] = item[T]{e, v}
}

// Lookup returns the implementation with that name or alias. The error for an
// unknown name lists the known ones.
func (r *Registry[T]) Lookup(name string) (T, error) {
	i, ok := r.items[r.names[name]]
	if !ok {
		return i.value, fmt.Errorf("unknown %s %q (known: %s)", r.kind, name, strings.Join(slices.Sorted(maps.Keys(r.names)), ", "))
	}
	return i.value, nil
}

// Names returns the sorted names of the implementations, without aliases.
func (r *Registry[T]) Names() []string { return slices.Sorted(maps.Keys(r.items)) }

// Entry returns the declaration of a name or alias, or the zero value.
func (r *Registry[T]) Entry(name string) Entry { return r.items[r.names[name]].entry }

// Entries returns the declarations, sorted by name. Every alias has a separate
// entry with AliasOf set.
func (r *Registry[T]) Entries() []Entry {
	var out []Entry
	r.Each(func(e Entry, _ T) { out = append(out, e) })
	return out
}

// Each calls f for every entry with its implementation, sorted by name, aliases
// included.
func (r *Registry[T]) Each(f func(e Entry, v T)) {
	for _, name := range slices.Sorted(maps.Keys(r.names)) {
		i := r.items[r.names[name]]
		if e := i.entry; name != e.Name {
			i.entry.Name, i.entry.AliasOf = name, e.Name
		}
		f(i.entry, i.value)
	}
}
