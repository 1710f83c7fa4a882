package configs

import (
	"fmt"
	"slices"
)

// Change is a key with different values in two configurations.
type Change struct {
	Key      string // "actor.optim.lr", "env.0.max_turns"
	Old, New string // as TOML; "" where a table is missing
	Free     bool   // a resumed run may use the new value
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

// Diff lists the keys in which a and b differ, in the order of a written file. If only one has an
// [[env]] table, Diff lists only the environment's name. If only one has a component, Diff lists
// only the component's function. A resumed run reports the changes.
func Diff(a, b Config) []Change {
	var out []Change
	for _, e := range a.Schema.table {
		if e.status != Ready {
			continue
		}
		before, after := a.paths(e.name), b.paths(e.name)
		all := append(slices.Clone(before), slices.DeleteFunc(slices.Clone(after), func(s string) bool { return slices.Contains(before, s) })...)
		for _, path := range all {
			old, now := "", ""
			if slices.Contains(before, path) {
				old = literal(a.field(path))
			}
			if slices.Contains(after, path) {
				now = literal(b.field(path))
			}
			missing := old == "" || now == ""
			if old != now && (!missing || e.name == "env.name" || e.name == components+"fn") {
				out = append(out, Change{Key: path, Old: old, New: now, Free: free(e.name)})
			}
		}
	}
	return out
}
