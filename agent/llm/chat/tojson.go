package chat

import (
	"fmt"
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

// toJSON is Hugging Face's tojson: json.dumps with ensure_ascii off. Nothing is
// escaped for HTML and objects keep their order.
func toJSON(c *context, v any, p []any) any {
	style := &jsonStyle{ascii: truth(p[0]), item: ", ", pair: ": ", sorted: truth(p[3])}
	if !absent(p[1]) && p[1] != nil {
		style.pretty, style.item = true, ","
		var ok bool
		if style.indent, ok = textOf(p[1]); !ok {
			style.indent = strings.Repeat(" ", min(max(c.intArg(p[1], 0), 0), 1000))
		}
	}
	if !absent(p[2]) && p[2] != nil {
		var itemOK, pairOK bool
		if l, ok := p[2].(*list); ok && len(l.items) == 2 {
			style.item, itemOK = textOf(l.items[0])
			style.pair, pairOK = textOf(l.items[1])
		}
		if !itemOK || !pairOK {
			panic(c.errorf("separators are a pair of strings"))
		}
	}
	var sb strings.Builder
	c.writeJSON(&sb, v, style, 0)
	return c.text(sb.String())
}

func (c *context) writeJSON(sb *strings.Builder, v any, style *jsonStyle, depth int) {
	c.nested(depth)
	c.fits(sb.Len())
	c.spend(1)
	if text, ok := jsonScalar(v); ok {
		sb.WriteString(text)
		return
	}
	switch v := unwrap(v).(type) {
	case string:
		c.read(v)
		jsonString(sb, v, style.ascii)
	case *list:
		writeItems(sb, "[", "]", v.items, style, depth, func(x any) { c.writeJSON(sb, x, style, depth+1) })
	case *dict:
		pairs := v.list(itemOf)
		if style.sorted {
			pairs = dictSort(c, v, []any{true, absentArg{}, absentArg{}}).(*list)
		}
		writeItems(sb, "{", "}", pairs.items, style, depth, func(x any) {
			pair := x.(*list).items
			key, ok := textOf(pair[0])
			if !ok {
				key, _ = jsonScalar(pair[0])
			}
			c.read(key)
			jsonString(sb, key, style.ascii)
			sb.WriteString(style.pair)
			c.writeJSON(sb, pair[1], style, depth+1)
		})
	default:
		panic(c.errorf("a %s has no JSON form", typeName(v)))
	}
}

// writeItems writes items between brackets, each with write.
func writeItems(sb *strings.Builder, open, closing string, items []any, style *jsonStyle, depth int, write func(any)) {
	newline := func(depth int) {
		if style.pretty {
			sb.WriteString("\n" + strings.Repeat(style.indent, depth))
		}
	}
	sb.WriteString(open)
	for i, x := range items {
		if i > 0 {
			sb.WriteString(style.item)
		}
		newline(depth + 1)
		write(x)
	}
	if len(items) > 0 {
		newline(depth)
	}
	sb.WriteString(closing)
}

// jsonFloats replaces the names of special floats by those of Python's json.dumps.
var jsonFloats = strings.NewReplacer("nan", "NaN", "inf", "Infinity")

// jsonScalar returns the JSON of none, a boolean or a number.
func jsonScalar(v any) (text string, ok bool) {
	switch v := v.(type) {
	case nil:
		return "null", true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return jsonFloats.Replace(floatRepr(v)), true
	}
	return "", false
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
