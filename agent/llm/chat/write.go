package chat

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// writer writes values as Python's repr does or, if json is set, as json.dumps does.
type writer struct {
	c          *context
	out        strings.Builder
	item, pair string // separators

	json   bool // the options below are for JSON only
	ascii  bool
	pretty bool
	indent string
	sorted func(*dict) any // returns the entries in the order of the keys; nil: insertion order
}

// toJSON implements Hugging Face's tojson: json.dumps with ensure_ascii off.
// Nothing is escaped for HTML and objects keep their order.
func toJSON(c *context, v any, p []any) any {
	w := &writer{c: c, json: true, ascii: truth(p[0]), item: ", ", pair: ": "}
	if truth(p[3]) {
		w.sorted = func(d *dict) any { return dictSort(c, d, []any{true, absentArg{}, absentArg{}}) }
	}
	if !absent(p[1]) && p[1] != nil {
		w.pretty, w.item = true, ","
		var ok bool
		if w.indent, ok = textOf(p[1]); !ok {
			w.indent = strings.Repeat(" ", min(max(c.intArg(p[1], 0), 0), 1000))
		}
	}
	if !absent(p[2]) && p[2] != nil {
		var itemOK, pairOK bool
		if l, ok := p[2].(*list); ok && len(l.items) == 2 {
			w.item, itemOK = textOf(l.items[0])
			w.pair, pairOK = textOf(l.items[1])
		}
		if !itemOK || !pairOK {
			panic(c.errorf("separators are a pair of strings"))
		}
	}
	w.value(v, 0)
	return c.text(w.out.String())
}

func (w *writer) value(v any, depth int) {
	w.c.checkDepth(depth)
	w.c.checkBytes(w.out.Len())
	w.c.spend(1)
	if text, ok := w.scalar(v); ok {
		w.out.WriteString(text)
		return
	}
	switch v := v.(type) {
	case string:
		w.str(v)
	case markup:
		if w.json {
			w.str(string(v))
			return
		}
		w.out.WriteString("Markup(")
		w.str(string(v))
		w.out.WriteString(")")
	case *list:
		open, closing := "[", "]"
		switch {
		case w.json || !v.tuple:
		case len(v.items) == 1:
			open, closing = "(", ",)"
		default:
			open, closing = "(", ")"
		}
		w.items(open, closing, v.items, depth, func(x any) { w.value(x, depth+1) })
	case *dict:
		pairs := v.list(itemOf)
		if w.sorted != nil {
			pairs = w.sorted(v).(*list)
		}
		w.items("{", "}", pairs.items, depth, func(x any) {
			key, value := x.(*list).items[0], x.(*list).items[1]
			if text, ok := w.scalar(key); ok && w.json {
				w.str(text)
			} else {
				w.value(key, depth+1)
			}
			w.out.WriteString(w.pair)
			w.value(value, depth+1)
		})
	default:
		if _, ok := v.(undefined); !ok || w.json {
			panic(w.c.errorf("a %s cannot be written", typeName(v)))
		}
		w.out.WriteString("Undefined")
	}
}

// items writes brackets around the items and calls the function write for each item.
func (w *writer) items(open, closing string, items []any, depth int, write func(any)) {
	newline := func(depth int) {
		if w.pretty {
			w.out.WriteString("\n" + strings.Repeat(w.indent, depth))
		}
	}
	w.out.WriteString(open)
	for i, x := range items {
		if i > 0 {
			w.out.WriteString(w.item)
		}
		newline(depth + 1)
		write(x)
	}
	if len(items) > 0 {
		newline(depth)
	}
	w.out.WriteString(closing)
}

// jsonNames maps Python's names of constants to JSON's.
var jsonNames = map[string]string{"None": "null", "True": "true", "False": "false", "nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

// scalar returns the text of none, a boolean or a number.
func (w *writer) scalar(v any) (text string, ok bool) {
	switch v := v.(type) {
	case nil:
		text = "None"
	case bool:
		text = "False"
		if v {
			text = "True"
		}
	case int64:
		text = strconv.FormatInt(v, 10)
	case float64:
		text = floatRepr(v)
	default:
		return "", false
	}
	if name, ok := jsonNames[text]; ok && w.json {
		text = name
	}
	return text, true
}

func (w *writer) str(s string) {
	w.c.spendRead(s)
	if w.json {
		jsonString(&w.out, s, w.ascii)
	} else {
		quote(&w.out, s)
	}
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

// quote writes a string in the form of Python's repr.
func quote(sb *strings.Builder, s string) {
	q := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	sb.WriteByte(q)
	for _, r := range s {
		switch {
		case r == rune(q) || r == '\\':
			sb.WriteByte('\\')
			sb.WriteRune(r)
		case r == '\n':
			sb.WriteString(`\n`)
		case r == '\r':
			sb.WriteString(`\r`)
		case r == '\t':
			sb.WriteString(`\t`)
		case r == ' ' || unicode.IsPrint(r):
			sb.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(sb, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(sb, `\u%04x`, r)
		default:
			fmt.Fprintf(sb, `\U%08x`, r)
		}
	}
	sb.WriteByte(q)
}

// floatRepr writes a float as Python does: the shortest digits that parse to the
// same value, with an exponent for values below 1e-4 and from 1e16.
func floatRepr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
