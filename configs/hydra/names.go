package hydra

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// Names returns the names of the variables that a script reads.
func Names(text string) (map[string]bool, error) {
	s, err := parseScript(text)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	add := func(name string) {
		if syntax.ValidName(name) {
			names[name] = true
		}
	}
	syntax.Walk(s.file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp:
			add(n.Param.Value)
		case *syntax.ArithmExp: // $((A + B)) needs no $
			syntax.Walk(n.X, func(n syntax.Node) bool {
				if w, ok := n.(*syntax.Word); ok {
					add(w.Lit())
				}
				return true
			})
		}
		return true
	})
	return names, nil
}

// Known reports whether a trainer has a key.
func Known(key string) bool {
	return slices.ContainsFunc(slices.Concat(ppoKeys, sftKeys), func(entry row) bool { return slices.Contains(spread(entry.key), key) })
}
