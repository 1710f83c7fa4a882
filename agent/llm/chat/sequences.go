package chat

import (
	"slices"
	"strconv"
	"strings"
)

// Filters on sequences.

func first(c *context, v any, _ []any) any {
	if it, ok := v.(*iterator); ok && len(it.rest) > 0 { // consumes one item
		x := it.rest[0]
		it.rest = it.rest[1:]
		return x
	}
	items := c.iterate(v)
	if len(items) == 0 {
		return undefined{"the first item of an empty sequence"}
	}
	return items[0]
}

func last(c *context, v any, _ []any) any {
	if _, ok := v.(*iterator); ok {
		panic(c.errorf("last needs a sequence: put '| list' before it"))
	}
	items := c.iterate(v)
	if len(items) == 0 {
		return undefined{"the last item of an empty sequence"}
	}
	return asKindOf(v, items[len(items)-1]) // in jinja2 the last character of markup is markup
}

func (c *context) join(items []any, sep string) any {
	var sb strings.Builder
	for i, x := range items {
		if i > 0 {
			sb.WriteString(sep)
		}
		sb.WriteString(c.str(x))
		c.checkBytes(sb.Len())
	}
	c.spend(len(items))
	return c.text(sb.String())
}

func joinFilter(c *context, v any, p []any) any {
	sep := c.str(valueOr(p[0], ""))
	items := c.iterate(v)
	if !absent(p[1]) {
		items = c.each(items, func(x any) any { return c.path(x, p[1]) })
	}
	return c.join(items, sep)
}

// each returns f(x) for every item x.
func (c *context) each(items []any, f func(any) any) []any {
	out := make([]any, len(items))
	for i, x := range items {
		out[i] = f(x)
	}
	c.spend(len(out))
	return out
}

// path returns the item of v at a dotted path of attributes and indices.
func (c *context) path(v, path any) any {
	if _, isInt, i, ok := number(path); ok && isInt {
		return c.item(v, i)
	}
	s, ok := textOf(path)
	if !ok {
		panic(c.errorf("an attribute is a string or an integer, not a %s", typeName(path)))
	}
	for part := range strings.SplitSeq(s, ".") {
		var key any = part
		if i, err := strconv.ParseUint(part, 10, 31); err == nil {
			key = int64(i)
		}
		v = c.item(v, key)
	}
	return v
}

// key returns the sort key of x: the value at the path in the argument attribute, or x if
// there is no path. Strings are converted to lower case unless caseSensitive is true.
func (c *context) key(x, attribute, caseSensitive any) any {
	if !absent(attribute) && attribute != nil {
		x = c.path(x, attribute)
	}
	if s, ok := textOf(x); ok && !truth(caseSensitive) {
		c.spendRead(s)
		return lower(s)
	}
	return x
}

func itemsFilter(c *context, v any, a *args) any {
	switch v := v.(type) {
	case undefined:
		return &iterator{}
	case *dict:
		return &iterator{dictMethods["items"](c, v, a).(*list).items}
	}
	panic(c.errorf("items needs a mapping, not a %s", typeName(v)))
}

// sortBy returns items sorted by key. The sort is stable.
func (c *context) sortBy(items []any, key func(any) any, reverse any) any {
	type keyed struct{ key, item any }
	all := make([]keyed, len(items))
	for i, x := range items {
		all[i] = keyed{key(x), x}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		c.spend(0)
		if truth(reverse) {
			return c.compare(b.key, a.key, 0)
		}
		return c.compare(a.key, b.key, 0)
	})
	out := listOf()
	for _, k := range all {
		out.items = append(out.items, k.item)
	}
	return out
}

func dictSort(c *context, v any, p []any) any {
	d, ok := v.(*dict)
	if !ok {
		panic(c.errorf("dictsort needs a mapping, not a %s", typeName(v)))
	}
	at := slices.Index([]string{"key", "value"}, c.strArg(p[1], "key"))
	if at < 0 {
		panic(c.errorf("dictsort sorts by 'key' or 'value'"))
	}
	return c.sortBy(d.list(itemOf).items, func(x any) any { return c.key(x, int64(at), p[0]) }, p[2])
}

func sortFilter(c *context, v any, p []any) any {
	return c.sortBy(c.iterate(v), func(x any) any { return c.key(x, p[2], p[1]) }, p[0])
}

func unique(c *context, v any, p []any) any {
	seen := map[any]bool{}
	out := new(iterator)
	items := c.iterate(v)
	for _, x := range items {
		k := c.key(x, p[1], p[0])
		c.spendCompare(k)
		h, ok := hashKey(k)
		if !ok {
			panic(c.errorf("unique does not work with a %s", typeName(k)))
		}
		if !seen[h] {
			seen[h] = true
			out.rest = append(out.rest, x)
		}
	}
	c.spend(len(items))
	return out
}

func sum(c *context, v any, p []any) any {
	items := c.iterate(v)
	total := valueOr(p[1], int64(0))
	if _, ok := textOf(total); ok {
		panic(c.errorf("sum does not work with strings: use join"))
	}
	for _, x := range items {
		total = c.binary("+", total, c.key(x, p[0], true))
	}
	return total
}

// extreme returns the filter min (sign -1) or max (sign 1).
func extreme(sign int) func(c *context, v any, p []any) any {
	return func(c *context, v any, p []any) any {
		var best any = undefined{"the minimum or maximum of an empty sequence"}
		var bestKey any
		items := c.iterate(v)
		for i, x := range items {
			k := c.key(x, p[1], p[0])
			if i == 0 || c.compare(k, bestKey, 0)*sign > 0 {
				best, bestKey = x, k
			}
		}
		c.spend(len(items))
		return best
	}
}

// mapFilter applies a filter to every item, or takes an attribute of each. For
// a false value such as none it returns an empty sequence and ignores the
// arguments, as the selectors do.
func mapFilter(c *context, v any, a *args) any {
	if !truth(v) {
		return new(iterator)
	}
	items := c.iterate(v)
	if len(a.pos) == 0 {
		p := c.bind(a, 0, []string{"attribute", "default"})
		if absent(p[0]) {
			panic(c.errorf("map needs a filter's name or an attribute"))
		}
		return &iterator{c.each(items, func(x any) any {
			x = c.path(x, p[0])
			if _, missing := x.(undefined); missing {
				return valueOr(p[1], x)
			}
			return x
		})}
	}
	name := c.strArg(a.pos[0], "")
	f := c.filterNamed(name)
	rest := &args{name: "filter " + name, pos: a.pos[1:], kw: a.kw}
	return &iterator{c.each(items, func(x any) any { return f(c, x, rest) })}
}

// selector returns the filter select, reject, selectattr or rejectattr.
func selector(keep, byAttribute bool) function {
	return func(c *context, v any, a *args) any {
		if !truth(v) {
			return new(iterator)
		}
		items := c.iterate(v)
		pos := a.pos
		var attribute any = absentArg{}
		if byAttribute {
			if len(pos) == 0 {
				panic(c.errorf("%s needs an attribute", a.name))
			}
			attribute, pos = pos[0], pos[1:]
		}
		is := func(_ *context, v any, _ *args) any { return v }
		rest := &args{name: "test"}
		if len(pos) > 0 {
			name := c.strArg(pos[0], "")
			is = c.testNamed(name)
			rest = &args{name: "test " + name, pos: pos[1:], kw: a.kw}
		}
		out := new(iterator)
		for _, x := range items {
			if truth(is(c, c.key(x, attribute, true), rest)) == keep {
				out.rest = append(out.rest, x)
			}
		}
		c.spend(len(items))
		return out
	}
}
