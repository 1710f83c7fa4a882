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
	kind    string
	items   map[string]T
	entries map[string]Entry
	aliases map[string]string // alias to name
}

// New returns an empty registry. Errors call its contents kind, such as "advantage
// estimator".
func New[T any](kind string) *Registry[T] {
	return &Registry[T]{kind: kind, items: map[string]T{}, entries: map[string]Entry{}, aliases: map[string]string{}}
}

// Register adds an implementation without documentation or parameters.
func (r *Registry[T]) Register(name string, v T) { r.Add(Entry{Name: name}, v) }

// Add adds an implementation with its declaration. It panics if the name or an
// alias is empty or taken.
func (r *Registry[T]) Add(e Entry, v T) {
	for _, name := range append([]string{e.Name}, e.Aliases...) {
		_, taken := r.items[name]
		if _, alias := r.aliases[name]; taken || alias || name == "" {
			panic(fmt.Sprintf("registry: %s %q registered twice or without a name", r.kind, name))
		}
	}
	r.items[e.Name], r.entries[e.Name] = v, e
	for _, alias := range e.Aliases {
		r.aliases[alias] = e.Name
	}
}

// Lookup returns the implementation with that name or alias. The error for an
// unknown name lists the known ones.
func (r *Registry[T]) Lookup(name string) (T, error) {
	if canonical, ok := r.aliases[name]; ok {
		name = canonical
	}
	v, ok := r.items[name]
	if !ok {
		return v, fmt.Errorf("unknown %s %q (known: %s)", r.kind, name, strings.Join(slices.Sorted(maps.Keys(r.all())), ", "))
	}
	return v, nil
}

// Names returns the sorted names of the implementations, without aliases.
func (r *Registry[T]) Names() []string { return slices.Sorted(maps.Keys(r.items)) }

// all maps every name and alias to the name of its implementation.
func (r *Registry[T]) all() map[string]string {
	names := maps.Clone(r.aliases)
	for name := range r.items {
		names[name] = name
	}
	return names
}

// Entry returns the declaration of a name or alias, or the zero value.
func (r *Registry[T]) Entry(name string) Entry { return r.entries[r.all()[name]] }

// Entries returns the declarations, sorted by name. Every alias has a separate
// entry with AliasOf set.
func (r *Registry[T]) Entries() []Entry {
	var out []Entry
	all := r.all()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e := r.entries[all[name]]
		if name != e.Name {
			e.Name, e.AliasOf = name, e.Name
		}
		out = append(out, e)
	}
	return out
}

// Each calls f for every entry with its implementation, sorted by name, aliases
// included.
func (r *Registry[T]) Each(f func(e Entry, v T)) {
	for _, e := range r.Entries() {
		v, _ := r.Lookup(e.Name) // an entry is always found
		f(e, v)
	}
}
