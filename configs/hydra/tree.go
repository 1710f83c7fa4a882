package hydra

import (
	"maps"
	"slices"
)

// branches expands a table at a node, algorithm.kl_ctrl={type: fixed}, to one
// setting per key, which Hydra merges the same way. A table that is the value of a
// key stays, as does one with invalid names.
func (im *importer) branches(overrides []Override) []Override {
	var out []Override
	for _, o := range overrides {
		table, ok := o.Value.(map[string]any)
		if !ok || len(table) == 0 || o.Delete || im.isLeaf(o.Key) {
			out = append(out, o)
			continue
		}
		var below []Override
		for _, name := range slices.Sorted(maps.Keys(table)) {
			v := table[name]
			below = append(below, Override{Key: o.Key + "." + name, Value: v, Text: plain(v), Missing: o.Missing, Maybe: o.Maybe})
		}
		if slices.ContainsFunc(below, func(o Override) bool { return !isKey(o.Key) }) {
			out = append(out, o)
			continue
		}
		out = append(out, im.branches(below)...)
	}
	return out
}

// isLeaf reports whether a key has a row of its own.
func (im *importer) isLeaf(key string) bool {
	return slices.ContainsFunc(im.table, func(entry row) bool { return slices.Contains(spread(entry.key), key) })
}
