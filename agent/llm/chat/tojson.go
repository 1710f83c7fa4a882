package chat

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// jsonStyle are the options of Python's json.dumps.
type jsonStyle struct {
	ascii      bool
	indent     string
	pretty     bool
	item, pair string // separators
	sorted     bool
}

// toJSON is Hugging Face's tojson: json.dumps with ensure_ascii off, so
// nothing is escaped for HTML and objects keep their order.
func toJSON(c *context, v any, a *args) (any, error) {
	p, err := a.bind(0, "ensure_ascii", "indent", "separators", "sort_keys")
	if err != nil {
		return nil, err
	}
	style := jsonStyle{ascii: boolArg(p[0], false), item: ", ", pair: ": ", sorted: boolArg(p[3], false)}
	switch indent := unwrap(p[1]).(type) {
	case absentArg, nil:
	case string:
		style.pretty, style.indent, style.item = true, indent, ","
	default:
		n, err := intArg(indent, 0)
		if err != nil {
			return nil, err
		}
		style.pretty, style.indent, style.item = true, strings.Repeat(" ", min(max(n, 0), 1000)), ","
	}
	if l, ok := p[2].(*list); ok {
		item, pair, err := separators(l)
		if err != nil {
			return nil, err
		}
		style.item, style.pair = item, pair
	} else if !absent(p[2]) && p[2] != nil {
		return nil, fmt.Errorf("separators are a pair of strings, not a %s", typeName(p[2]))
	}
	var sb strings.Builder
	if err := c.writeJSON(&sb, v, &style, 0); err != nil {
		return nil, err
	}
	return c.text(sb.String())
}

func separators(l *list) (item, pair string, err error) {
	if len(l.items) == 2 {
		a, aok := textOf(l.items[0])
		b, bok := textOf(l.items[1])
		if aok && bok {
			return a, b, nil
		}
	}
	return "", "", fmt.Errorf("separators are a pair of strings")
}

func (c *context) writeJSON(sb *strings.Builder, v any, style *jsonStyle, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	if sb.Len() > maxString {
		return errLong
	}
	if err := c.spend(1); err != nil {
		return err
	}
	switch v := unwrap(v).(type) {
	case nil:
		sb.WriteString("null")
	case bool:
		sb.WriteString(strconv.FormatBool(v))
	case int64:
		sb.WriteString(strconv.FormatInt(v, 10))
	case float64:
		sb.WriteString(jsonFloat(v))
	case string:
		if err := c.read(v); err != nil {
			return err
		}
		jsonString(sb, v, style.ascii)
	case *list:
		return c.writeJSONItems(sb, "[]", len(v.items), style, depth, func(i int) error {
			return c.writeJSON(sb, v.items[i], style, depth+1)
		})
	case *dict:
		entries := v.entries
		if style.sorted {
			pairs, err := dictSort(c, v, &args{name: "sort_keys", pos: []any{true}})
			if err != nil {
				return err
			}
			entries = nil
			for _, p := range pairs.(*list).items {
				entries = append(entries, entry{p.(*list).items[0], p.(*list).items[1]})
			}
		}
		return c.writeJSONItems(sb, "{}", len(entries), style, depth, func(i int) error {
			key, err := jsonKey(entries[i].key)
			if err != nil {
				return err
			}
			if err := c.read(key); err != nil {
				return err
			}
			jsonString(sb, key, style.ascii)
			sb.WriteString(style.pair)
			return c.writeJSON(sb, entries[i].value, style, depth+1)
		})
	default:
		return fmt.Errorf("a %s has no JSON form", typeName(v))
	}
	return nil
}

func (c *context) writeJSONItems(sb *strings.Builder, brackets string, n int, style *jsonStyle, depth int, item func(int) error) error {
	newline := func(depth int) {
		if style.pretty {
			sb.WriteByte('\n')
			sb.WriteString(strings.Repeat(style.indent, depth))
		}
	}
	sb.WriteByte(brackets[0])
	for i := range n {
		if i > 0 {
			sb.WriteString(style.item)
		}
		newline(depth + 1)
		if err := item(i); err != nil {
			return err
		}
	}
	if n > 0 {
		newline(depth)
	}
	sb.WriteByte(brackets[1])
	return nil
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return floatRepr(f)
}

func jsonKey(k any) (string, error) {
	switch k := unwrap(k).(type) {
	case string:
		return k, nil
	case nil:
		return "null", nil
	case bool:
		return strconv.FormatBool(k), nil
	case int64:
		return strconv.FormatInt(k, 10), nil
	case float64:
		return jsonFloat(k), nil
	}
	return "", fmt.Errorf("a %s cannot be a key in JSON", typeName(k))
}

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\f': `\f`, '\b': `\b`}

func jsonString(sb *strings.Builder, s string, ascii bool) {
	sb.WriteByte('"')
	for _, r := range s {
		esc, ok := jsonEscapes[r]
		switch {
		case ok:
			sb.WriteString(esc)
		case r < 0x20 || ascii && r > 0x7E && r < 0x10000:
			fmt.Fprintf(sb, `\u%04x`, r)
		case ascii && r >= 0x10000:
			r -= 0x10000
			fmt.Fprintf(sb, `\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
		default:
			sb.WriteRune(r)
		}
	}
	sb.WriteByte('"')
}
