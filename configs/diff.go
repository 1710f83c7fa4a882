package configs

import (
	"fmt"
)

// Change is one key that two configurations disagree on.
type Change struct {
	Key      string // "actor.optim.lr", "env.0.max_turns"
	Old, New string // as TOML; "" where a table is missing
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
// A resumed run reports it, so that nobody goes on with other settings unawares.
func Diff(a, b Config) []Change {
	var out []Change
	at := func(c *Config, path string, n, i int) string {
		if i >= n {
			return ""
		}
		return literal(field(c, path))
	}
	for _, e := range table {
		if e.status != Ready {
			continue
		}
		na, nb := len(a.paths(e.name)), len(b.paths(e.name))
		for i := range max(na, nb) {
			path := instance(e.name, i)
			if old, now := at(&a, path, na, i), at(&b, path, nb, i); old != now {
				out = append(out, Change{path, old, now})
			}
		}
	}
	return out
}

// Equal reports whether a and b say the same.
func Equal(a, b Config) bool {
	return a.text(false) == b.text(false)
}
