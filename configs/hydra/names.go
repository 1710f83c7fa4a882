package hydra

import "strings"

// Names are the variables that a script reads.
func Names(text string) (map[string]bool, error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	collect(names, tokens, 0)
	return names, nil
}

func collect(names map[string]bool, tokens []token, depth int) {
	if depth > maxDepth {
		return
	}
	for _, t := range tokens {
		for _, p := range t.word {
			inner := ""
			switch {
			case p.expand:
				inner = strings.TrimLeft(p.text, "#!")
				n := nameLength(inner)
				if n > 0 {
					names[inner[:n]] = true
				}
				inner = inner[n:]
			case p.run && strings.HasPrefix(p.text, "("): // $((A + B)) needs no $
				for _, name := range strings.FieldsFunc(p.text, func(r rune) bool {
					return r > 0x7f || nameLength("a"+string(r)) < 2
				}) {
					if nameLength(name) == len(name) {
						names[name] = true
					}
				}
				continue
			case p.run:
				inner = p.text
			}
			if more, err := lex(inner); err == nil {
				collect(names, more, depth+1)
			}
		}
	}
}

// Known reports whether a key is one of a trainer's.
func Known(key string) bool {
	for _, table := range [][]row{ppoKeys, sftKeys} {
		if (&importer{table: table}).isLeaf(key) {
			return true
		}
	}
	return false
}
