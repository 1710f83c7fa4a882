package chat

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// Values of a template are nil (none), bool, int64, float64, string, markup,
// *list, *iterator, *dict, undefined, *namespace, *loop and *callable.

// undefined is what a missing name or attribute evaluates to: it prints as
// nothing and is false, and any other use is an error that says what was missing.
type undefined struct{ what string }

func (u undefined) err() error { return fmt.Errorf("%s is undefined", u.what) }

// list is a Python list or tuple. Lists are never changed once made.
type list struct {
	items []any
	tuple bool
}

func listOf(items ...any) *list  { return &list{items: items} }
func tupleOf(items ...any) *list { return &list{items: items, tuple: true} }

// iterator is what Jinja's select, map and some other filters return: it can be
// iterated over once, has no length and is true even if it is empty.
type iterator struct{ rest []any }

// namespace is a mutable bag of attributes, made by namespace().
type namespace struct{ attrs *dict }

// callable is a function, macro or bound method.
type callable struct {
	name string
	call func(c *context, a *args) (any, error)
}

// maxDepth bounds nested values.
const maxDepth = 100

func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case bool:
		return "boolean"
	case int64:
		return "integer"
	case float64:
		return "float"
	case string, markup:
		return "string"
	case *iterator:
		return "iterator"
	case *list:
		if v.tuple {
			return "tuple"
		}
		return "list"
	case *dict:
		return "mapping"
	case undefined:
		return "undefined"
	case *namespace:
		return "namespace"
	case *loop:
		return "loop"
	case *callable:
		return "function"
	}
	return fmt.Sprintf("%T", v)
}

func truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	case *list:
		return len(v.items) > 0
	case *dict:
		return v.len() > 0
	}
	return true
}

// str is Python's str().
func (c *context) str(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case markup:
		return string(v), nil
	case undefined:
		return "", nil
	}
	var sb strings.Builder
	if err := c.repr(&sb, v, 0); err != nil {
		return "", err
	}
	return sb.String(), nil
}

// repr is Python's repr().
func (c *context) repr(sb *strings.Builder, v any, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	if err := c.spend(1); err != nil {
		return err
	}
	if sb.Len() > maxString {
		return errLong
	}
	switch v := v.(type) {
	case nil:
		sb.WriteString("None")
	case bool:
		if v {
			sb.WriteString("True")
		} else {
			sb.WriteString("False")
		}
	case int64:
		sb.WriteString(strconv.FormatInt(v, 10))
	case float64:
		sb.WriteString(floatRepr(v))
	case string:
		if err := c.read(v); err != nil {
			return err
		}
		quote(sb, v)
	case markup:
		if err := c.read(v); err != nil {
			return err
		}
		sb.WriteString("Markup(")
		quote(sb, string(v))
		sb.WriteString(")")
	case *list:
		open, closing := "[", "]"
		if v.tuple {
			open, closing = "(", ")"
			if len(v.items) == 1 {
				closing = ",)"
			}
		}
		sb.WriteString(open)
		for i, x := range v.items {
			if i > 0 {
				sb.WriteString(", ")
			}
			if err := c.repr(sb, x, depth+1); err != nil {
				return err
			}
		}
		sb.WriteString(closing)
	case *dict:
		sb.WriteString("{")
		for i, e := range v.entries {
			if i > 0 {
				sb.WriteString(", ")
			}
			if err := c.repr(sb, e.key, depth+1); err != nil {
				return err
			}
			sb.WriteString(": ")
			if err := c.repr(sb, e.value, depth+1); err != nil {
				return err
			}
		}
		sb.WriteString("}")
	case undefined:
		sb.WriteString("Undefined")
	default:
		return fmt.Errorf("a %s cannot be printed", typeName(v))
	}
	return nil
}

// quote writes a string as Python's repr does.
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

// floatRepr writes a float as Python does: the shortest digits that read
// back, with an exponent below 1e-4 and from 1e16.
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

// number returns the value of a bool, integer or float.
func number(v any) (f float64, isInt bool, i int64, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true, 1, true
		}
		return 0, true, 0, true
	case int64:
		return float64(v), true, v, true
	case float64:
		return v, false, 0, true
	}
	return 0, false, 0, false
}

func (c *context) equal(a, b any, depth int) (bool, error) {
	if depth > maxDepth {
		return false, errDeep
	}
	if err := c.spend(1); err != nil {
		return false, err
	}
	a, b = unwrap(a), unwrap(b)
	if fa, aInt, ia, ok := number(a); ok {
		fb, bInt, ib, ok := number(b)
		if aInt && bInt {
			return ok && ia == ib, nil
		}
		return ok && fa == fb, nil
	}
	switch a := a.(type) {
	case nil:
		return b == nil, nil
	case string:
		s, ok := b.(string)
		if !ok || len(s) != len(a) {
			return false, nil
		}
		return s == a, c.compared(a)
	case undefined:
		_, ok := b.(undefined)
		return ok, nil
	case *list:
		l, ok := b.(*list)
		if !ok || l.tuple != a.tuple || len(l.items) != len(a.items) {
			return false, nil
		}
		for i := range a.items {
			if eq, err := c.equal(a.items[i], l.items[i], depth+1); err != nil || !eq {
				return false, err
			}
		}
		return true, nil
	case *dict:
		d, ok := b.(*dict)
		if !ok || d.len() != a.len() {
			return false, nil
		}
		for _, e := range a.entries {
			other, ok := d.get(e.key)
			if !ok {
				return false, nil
			}
			if eq, err := c.equal(e.value, other, depth+1); err != nil || !eq {
				return false, err
			}
		}
		return true, nil
	}
	return a == b, nil
}

// compare orders two values as Python does; unlike kinds are an error.
func (c *context) compare(a, b any, depth int) (int, error) {
	if depth > maxDepth {
		return 0, errDeep
	}
	if fa, aInt, ia, ok := number(a); ok {
		if fb, bInt, ib, ok := number(b); ok {
			switch {
			case aInt && bInt && ia < ib || !(aInt && bInt) && fa < fb:
				return -1, nil
			case aInt && bInt && ia > ib || !(aInt && bInt) && fa > fb:
				return 1, nil
			}
			return 0, nil
		}
	}
	if sa, ok := textOf(a); ok {
		if sb, ok := textOf(b); ok {
			return strings.Compare(sa, sb), c.compared(sa[:min(len(sa), len(sb))])
		}
	}
	la, aok := a.(*list)
	lb, bok := b.(*list)
	if !aok || !bok || la.tuple != lb.tuple {
		return 0, fmt.Errorf("a %s and a %s have no order", typeName(a), typeName(b))
	}
	for i := range min(len(la.items), len(lb.items)) {
		eq, err := c.equal(la.items[i], lb.items[i], depth+1)
		if err != nil {
			return 0, err
		}
		if !eq {
			return c.compare(la.items[i], lb.items[i], depth+1)
		}
	}
	return len(la.items) - len(lb.items), nil
}

// iterate lists what a for loop over v visits.
func (c *context) iterate(v any) ([]any, error) {
	switch v := unwrap(v).(type) {
	case *iterator:
		items := v.rest
		v.rest = nil
		return items, nil
	case *list:
		return v.items, nil
	case *dict:
		return v.keys(), nil
	case undefined:
		return nil, nil
	case string:
		out := make([]any, 0, len(v))
		for _, r := range v {
			out = append(out, string(r))
		}
		return out, c.spend(len(out))
	}
	return nil, fmt.Errorf("a %s is not iterable", typeName(v))
}

func (c *context) contains(in, v any) (bool, error) {
	switch in := unwrap(in).(type) {
	case *iterator: // what comes before the value is used up
		for len(in.rest) > 0 {
			x := in.rest[0]
			in.rest = in.rest[1:]
			if eq, err := c.equal(x, v, 0); err != nil || eq {
				return eq, err
			}
		}
		return false, nil
	case string:
		s, ok := textOf(v)
		if !ok {
			return false, fmt.Errorf("'in' a string needs a string, not a %s", typeName(v))
		}
		return strings.Contains(in, s), c.spend(len(in) / 64)
	case *dict:
		_, ok := in.get(v)
		return ok, c.compared(v)
	}
	items, err := c.iterate(in)
	if err != nil {
		return false, err
	}
	for _, x := range items {
		if eq, err := c.equal(x, v, 0); err != nil || eq {
			return eq, err
		}
	}
	return false, nil
}
