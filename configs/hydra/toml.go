package hydra

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/configs"
)

// write returns the settings as TOML, in the order of the table of keys.
func (im *importer) write(c Command, o Options) []byte {
	var b strings.Builder
	from := o.From
	if c.Program != "" {
		from += " (" + c.Program + ")"
	}
	fmt.Fprintf(&b, "# Imported from %s.\n# `openmanus config show FILE` prints every key with its documentation.\n", clean(from))
	sec := ""
	for _, k := range im.ours {
		keys := []string{k.Name}
		if strings.HasPrefix(k.Name, componentsAt) { // a table per component
			keys = im.componentKeys(k.Name)
		}
		for _, key := range keys {
			s, ok := im.out[key]
			if !ok {
				continue
			}
			if at := key[:strings.LastIndexByte(key, '.')]; at != sec {
				sec = at
				head := "[" + at + "]"
				if at == "env" {
					head = "[[env]]"
				}
				b.WriteString("\n" + head + "\n")
			}
			line := lastName(key) + " = " + configs.Literal(s.value)
			switch {
			case s.from == nil:
			case s.from.Default:
				line += "  # " + s.from.Key + ", its default"
			default:
				line += "  # " + s.from.Key
			}
			b.WriteString(line + "\n")
		}
	}
	return []byte(b.String())
}

// clean replaces control characters: a line feed would end a comment.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, clip(s))
}

const componentsAt = "reward.components."

// componentKeys returns the keys of all components if name is the first component
// key of the table, and nil for other names.
func (im *importer) componentKeys(name string) []string {
	if name != componentsAt+"fn" {
		return nil
	}
	var out []string
	for key := range im.out {
		if strings.HasPrefix(key, componentsAt) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}
