package configs

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/openmanus/openmanus/data/registry"
)

// Marshal returns c as TOML with every key and a comment on each. Load reads
// it back to an equal Config.
func (c Config) Marshal() []byte {
	var b strings.Builder
	table := c.Schema.table
	for i := 0; i < len(table); {
		// rows are the consecutive rows of one section.
		sec := sectionOf(table[i].name)
		j := i
		for j < len(table) && sectionOf(table[j].name) == sec {
			j++
		}
		rows := table[i:j]
		i = j
		if sec == "env" {
			for n := range c.Env {
				c.section(&b, "[[env]]", rows, n)
			}
			continue
		}
		if sec+"." == components {
			for n, p := range c.Reward.Components {
				c.section(&b, "["+components+p.Name+"]", c.componentRows(rows, p), n)
			}
			continue
		}
		c.section(&b, "["+sec+"]", rows, 0)
	}
	return []byte(b.String())
}

// componentRows returns the rows of the keys that a component's function reads.
func (c *Config) componentRows(rows []entry, p Component) []entry {
	var out []entry
	fn, _ := registry.Find(c.Schema.words.Scores, p.Fn)
	for _, e := range rows {
		key := strings.TrimPrefix(e.name, components)
		if key == "fn" || key == "weight" || fn.Has(key) {
			out = append(out, e)
		}
	}
	return out
}

func (c *Config) section(b *strings.Builder, head string, rows []entry, env int) {
	open := false
	for _, e := range rows {
		if e.status != Ready {
			continue
		}
		if !open {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(head + "\n")
			open = true
		}
		b.WriteString("# " + e.doc)
		if e.rule.Allowed != "" {
			b.WriteString("; allowed: " + e.rule.Allowed)
		}
		b.WriteByte('\n')
		for _, d := range c.Derived {
			if d.Key == e.name {
				fmt.Fprintf(b, "# derived: %s does not fit %s\n", d.Default, d.Reason)
			}
		}
		leaf := e.name[strings.LastIndexByte(e.name, '.')+1:]
		fmt.Fprintf(b, "%s = %s\n", leaf, literal(c.field(instance(e.name, env))))
	}
}

func sectionOf(name string) string {
	return name[:strings.LastIndexByte(name, '.')]
}

// Literal writes a value as TOML: text, a number, true or false, or a list or
// table of them.
func Literal(v any) string { return literal(reflect.ValueOf(v)) }

// literal writes a value as TOML.
func literal(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return quote(v.String())
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Interface:
		return literal(v.Elem())
	case reflect.Int, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10)
	case reflect.Float64:
		return formatFloat(v.Float())
	case reflect.Map:
		var parts []string
		for _, key := range v.MapKeys() {
			parts = append(parts, quote(key.String())+" = "+quote(fmt.Sprint(v.MapIndex(key).Interface())))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	case reflect.Slice, reflect.Array:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = literal(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	panic("configs: cannot write as TOML a " + v.Type().String())
}

// formatFloat writes 1 as 1.0, since TOML reads 1 as an integer.
func formatFloat(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".einf") {
		s += ".0"
	}
	return s
}

// quote writes a TOML basic string. Invalid UTF-8, which TOML does not allow,
// becomes U+FFFD.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		case r == utf8.RuneError:
			b.WriteRune('\uFFFD')
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
