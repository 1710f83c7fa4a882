package configs

import (
	"fmt"
	"slices"
	"strings"
)

// Change is one key that two configurations disagree on.
type Change struct {
	Key      string // "actor.optim.lr", "env.0.max_turns"
	Old, New string // as TOML; "" where a table is missing
	Free     bool   // a resumed run may have the new value
}

// String returns the change as "key: old -> new".
func (c Change) String() string {
	none := func(s string) string {
		if s == "" {
			return "(absent)"
		}
		return s
	}
	return fmt.Sprintf("%s: %s -> %s", c.Key, none(c.Old), none(c.New))
}

// Diff lists the keys in which a and b differ, in the order of a written file.
// For an [[env]] table that only one of them has, it lists the name. A resumed
// run reports the changes.
func Diff(a, b Config) []Change {
	var out []Change
	at := func(c *Config, path string, n, i int) string {
		if i >= n {
			return ""
		}
		return literal(c.field(path))
	}
	for _, e := range a.Schema.table {
		if e.status != Ready {
			continue
		}
		if strings.HasPrefix(e.name, components) {
			out = append(out, diffComponents(&a, &b, e.name)...)
			continue
		}
		na, nb := len(a.paths(e.name)), len(b.paths(e.name))
		for i := range max(na, nb) {
			if i >= min(na, nb) && e.name != "env.name" {
				break
			}
			path := instance(e.name, i)
			if old, now := at(&a, path, na, i), at(&b, path, nb, i); old != now {
				out = append(out, Change{Key: path, Old: old, New: now, Free: free(e.name)})
			}
		}
	}
	return out
}

// diffComponents compares one key of the components, by their names; of a
// component that only one of them has, the function.
func diffComponents(a, b *Config, name string) []Change {
	var out []Change
	before, after := a.paths(name), b.paths(name)
	all := slices.Concat(before, after)
	slices.Sort(all)
	for _, path := range slices.Compact(all) {
		old, now := "", ""
		if slices.Contains(before, path) {
			old = literal(a.field(path))
		}
		if slices.Contains(after, path) {
			now = literal(b.field(path))
		}
		missing := old == "" || now == ""
		if old != now && (!missing || name == components+"fn") {
			out = append(out, Change{Key: path, Old: old, New: now, Free: free(name)})
		}
	}
	return out
}
