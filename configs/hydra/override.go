package hydra

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Override is one setting of a command line.
type Override struct {
	Key     string
	Delete  bool // ~key: the setting is removed
	Value   any  // a result of ParseValue
	Text    string
	Missing []string // variables and commands of unknown value that Value depends on
	Maybe   []string // variables in Value whose assignment a branch of the script may skip
}

// ParseOverride parses key=value, +key=value, ++key=value, ~key and ~key=value.
// The prefixes + and ++ tell whether the key exists upstream; they are ignored.
func ParseOverride(text string) (Override, error) {
	key, value, found := strings.Cut(text, "=")
	o := Override{Text: strings.TrimSpace(value)}
	key = strings.TrimSpace(key)
	if rest, ok := strings.CutPrefix(key, "~"); ok {
		o.Delete, key = true, rest
	} else {
		key = strings.TrimPrefix(strings.TrimPrefix(key, "+"), "+")
	}
	key, _, _ = strings.Cut(key, "@") // removes @package from GROUP@package
	o.Key = strings.ReplaceAll(key, "/", ".")
	switch {
	case !isKey(o.Key):
		return o, fmt.Errorf("%q is not a setting: write key=value, as in actor_rollout_ref.actor.optim.lr=1e-6", clip(text))
	case !found && !o.Delete:
		return o, fmt.Errorf("%q has no value: write %s=value", clip(text), o.Key)
	}
	v, err := ParseValue(value)
	if err != nil {
		return o, fmt.Errorf("%s: %w", o.Key, err)
	}
	o.Value = v
	return o, nil
}

// isKey reports whether s consists of names separated by dots.
func isKey(s string) bool {
	for name := range strings.SplitSeq(s, ".") {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}) {
			return false
		}
	}
	return true
}

// branches expands a table at a node, algorithm.kl_ctrl={type: fixed}, to one
// setting per key, as Hydra merges it. A table that is the value of a key is kept,
// and so is a table with invalid names.
func branches(overrides []Override) []Override {
	var out []Override
	for _, o := range overrides {
		table, ok := o.Value.(map[string]any)
		if !ok || len(table) == 0 || o.Delete || Known(o.Key) {
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
		out = append(out, branches(below)...)
	}
	return out
}
