package chat

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// Values of a template are nil (none), bool, int64, float64, string, markup,
// *list, *iterator, *dict, undefined, *namespace, *loop and *callable.

// undefined is the value of a missing name or attribute. It prints as nothing
// and is false. Any other use is an error that names the missing variable.
type undefined struct{ what string }

// defined panics if one of the values is undefined.
func (c *context) defined(values ...any) {
	for _, v := range values {
		if u, ok := v.(undefined); ok {
			panic(c.errorf("%s is undefined", u.what))
		}
	}
}

// list is a Python list or tuple. Lists do not change.
type list struct {
	items []any
	tuple bool
}

func listOf(items ...any) *list  { return &list{items: items} }
func tupleOf(items ...any) *list { return &list{items: items, tuple: true} }

// iterator is the result of Jinja's select, map and some other filters. It can
// be iterated over once, has no length and is true even if it is empty.
type iterator struct{ rest []any }

// namespace is a mutable set of attributes. The template function namespace makes it.
type namespace struct{ attrs *dict }

// callable is a function, a macro or a method.
type callable struct {
	name string
	self any // operand of a method; nil for others
	f    function
}

var typeNames = map[reflect.Type]string{
	nil:                           "none",
	reflect.TypeFor[bool]():       "boolean",
	reflect.TypeFor[int64]():      "integer",
	reflect.TypeFor[float64]():    "float",
	reflect.TypeFor[string]():     "string",
	reflect.TypeFor[markup]():     "string",
	reflect.TypeFor[*iterator]():  "iterator",
	reflect.TypeFor[*list]():      "list",
	reflect.TypeFor[*dict]():      "mapping",
	reflect.TypeFor[undefined]():  "undefined",
	reflect.TypeFor[*namespace](): "namespace",
	reflect.TypeFor[*loop]():      "loop",
	reflect.TypeFor[*callable]():  "function",
}

func typeName(v any) string {
	if l, ok := v.(*list); ok && l.tuple {
		return "tuple"
	}
	return typeNames[reflect.TypeOf(v)]
}

// truth returns Python's bool(v). An absent argument is false.
func truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined, absentArg:
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

// str returns Python's str(v).
func (c *context) str(v any) string {
	if s, ok := textOf(v); ok {
		return s
	}
	if _, ok := v.(undefined); ok {
		return ""
	}
	w := &writer{c: c, item: ", ", pair: ": "}
	w.value(v, 0)
	return w.out.String()
}

// number returns the value of a boolean, an integer or a float as f. The value of
// a boolean or an integer is also in i.
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

func (c *context) equal(a, b any, depth int) bool {
	c.checkDepth(depth)
	c.spend(1)
	a, b = unwrap(a), unwrap(b)
	if fa, aInt, ia, ok := number(a); ok {
		fb, bInt, ib, ok := number(b)
		if aInt && bInt {
			return ok && ia == ib
		}
		return ok && fa == fb
	}
	switch a := a.(type) {
	case string:
		s, ok := b.(string)
		if !ok || len(s) != len(a) {
			return false
		}
		c.spendCompare(a)
		return s == a
	case undefined:
		_, ok := b.(undefined)
		return ok
	case *list:
		l, ok := b.(*list)
		return ok && l.tuple == a.tuple && slices.EqualFunc(a.items, l.items, func(x, y any) bool { return c.equal(x, y, depth+1) })
	case *dict:
		d, ok := b.(*dict)
		if !ok || d.len() != a.len() {
			return false
		}
		for _, e := range a.entries {
			if other, ok := d.get(e.key); !ok || !c.equal(e.value, other, depth+1) {
				return false
			}
		}
		return true
	}
	return a == b
}

// compare orders two values as Python does. Values of different kinds are an error.
func (c *context) compare(a, b any, depth int) int {
	c.checkDepth(depth)
	if fa, aInt, ia, ok := number(a); ok {
		if fb, bInt, ib, ok := number(b); ok {
			switch {
			case aInt && bInt:
				return cmp.Compare(ia, ib)
			case fa < fb:
				return -1
			case fa > fb:
				return 1
			}
			return 0
		}
	}
	if sa, ok := textOf(a); ok {
		if sb, ok := textOf(b); ok {
			c.spendCompare(sa[:min(len(sa), len(sb))])
			return strings.Compare(sa, sb)
		}
	}
	la, aok := a.(*list)
	lb, bok := b.(*list)
	if !aok || !bok || la.tuple != lb.tuple {
		panic(c.errorf("a %s and a %s cannot be compared", typeName(a), typeName(b)))
	}
	for i := range min(len(la.items), len(lb.items)) {
		if x, y := la.items[i], lb.items[i]; !c.equal(x, y, depth+1) {
			return c.compare(x, y, depth+1)
		}
	}
	return len(la.items) - len(lb.items)
}

// iterate returns the items that a for loop over v visits.
func (c *context) iterate(v any) []any {
	switch v := unwrap(v).(type) {
	case *iterator:
		items := v.rest
		v.rest = nil
		return items
	case *list:
		return v.items
	case *dict:
		return v.list(func(e entry) any { return e.key }).items
	case undefined:
		return nil
	case string:
		out := make([]any, 0, len(v))
		for _, r := range v {
			out = append(out, string(r))
		}
		c.spend(len(out))
		return out
	}
	panic(c.errorf("a %s is not iterable", typeName(v)))
}

func (c *context) contains(in, v any) bool {
	switch in := unwrap(in).(type) {
	case *iterator: // as in Python, a search consumes the items up to the value that it finds
		for len(in.rest) > 0 {
			x := in.rest[0]
			in.rest = in.rest[1:]
			if c.equal(x, v, 0) {
				return true
			}
		}
		return false
	case string:
		s, ok := textOf(v)
		if !ok {
			panic(c.errorf("'in' needs a string on the left of a string, not a %s", typeName(v)))
		}
		c.spend(len(in) / 64)
		return strings.Contains(in, s)
	case *dict:
		c.spendCompare(v)
		_, ok := in.get(v)
		return ok
	}
	return slices.ContainsFunc(c.iterate(in), func(x any) bool { return c.equal(x, v, 0) })
}
