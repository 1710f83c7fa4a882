package hydra

import (
	"fmt"
	"strings"
	"unicode"
)

// Override is one setting of a command line.
type Override struct {
	Key     string
	Delete  bool // ~key: the setting is taken out
	Value   any  // as ParseValue gives it
	Text    string
	Missing []string // what the value needs and only a running script has: variables, commands
	Maybe   []string // variables behind the value that a branch of the script may change
}

// ParseOverride reads key=value, +key=value, ++key=value, ~key and ~key=value.
// The marks say whether the key exists upstream, which does not matter here.
func ParseOverride(text string) (Override, error) {
	key, value, found := strings.Cut(text, "=")
	o := Override{Text: strings.TrimSpace(value)}
	key = strings.TrimSpace(key)
	if rest, ok := strings.CutPrefix(key, "~"); ok {
		o.Delete, key = true, rest
	} else {
		key = strings.TrimPrefix(strings.TrimPrefix(key, "+"), "+")
	}
	key, _, _ = strings.Cut(key, "@") // the package that a group of settings goes to
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

// isKey reports whether s is names with dots between them.
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
