package chat

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func listFilter(c *context, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	items, err := c.iterate(v)
	if err != nil {
		return nil, err
	}
	return listOf(items...), nil
}

func firstFilter(c *context, v any, a *args) (any, error) { return c.endItem(v, a, "first") }
func lastFilter(c *context, v any, a *args) (any, error)  { return c.endItem(v, a, "last") }

// endItem is the first or last of a sequence.
func (c *context) endItem(v any, a *args, which string) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	if it, ok := v.(*iterator); ok { // first uses up one item
		if which == "last" {
			return nil, errors.New("last needs a sequence: put '| list' before it")
		}
		if len(it.rest) > 0 {
			x := it.rest[0]
			it.rest = it.rest[1:]
			return x, nil
		}
	}
	items, err := c.iterate(v)
	switch {
	case err != nil:
		return nil, err
	case len(items) == 0:
		return undefined{"the " + which + " item of an empty sequence"}, nil
	case which == "first":
		return items[0], nil
	}
	return asKindOf(v, items[len(items)-1]), nil // Python takes the last by its index, which keeps markup
}

func (c *context) join(items []any, sep string) (any, error) {
	var sb strings.Builder
	for i, x := range items {
		if i > 0 {
			sb.WriteString(sep)
		}
		s, err := c.str(x)
		if err != nil {
			return nil, err
		}
		if sb.WriteString(s); sb.Len() > maxString {
			return nil, errLong
		}
	}
	if err := c.spend(len(items)); err != nil {
		return nil, err
	}
	return c.text(sb.String())
}

func joinFilter(c *context, v any, a *args) (any, error) {
	p, err := a.bind(0, "d", "attribute")
	if err != nil {
		return nil, err
	}
	sep := ""
	if !absent(p[0]) {
		if sep, err = c.str(p[0]); err != nil {
			return nil, err
		}
	}
	items, err := c.iterate(v)
	if err != nil {
		return nil, err
	}
	if !absent(p[1]) {
		if items, err = c.pluck(items, p[1]); err != nil {
			return nil, err
		}
	}
	return c.join(items, sep)
}

// path is v at a dotted path of attributes and indices.
func (c *context) path(v, path any) (any, error) {
	if _, isInt, i, ok := number(path); ok && isInt {
		return c.item(v, i)
	}
	s, ok := textOf(path)
	if !ok {
		return nil, fmt.Errorf("an attribute is a string or an integer, not a %s", typeName(path))
	}
	for part := range strings.SplitSeq(s, ".") {
		var key any = part
		if i, err := strconv.ParseUint(part, 10, 31); err == nil {
			key = int64(i)
		}
		var err error
		if v, err = c.item(v, key); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (c *context) pluck(items []any, path any) ([]any, error) {
	out := make([]any, len(items))
	for i, x := range items {
		var err error
		if out[i], err = c.path(x, path); err != nil {
			return nil, err
		}
	}
	return out, c.spend(len(out))
}

func reverseFilter(c *context, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	if s, ok := textOf(v); ok {
		r := []rune(s)
		slices.Reverse(r)
		return c.text(string(r))
	}
	items, err := c.iterate(v)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(items)
	slices.Reverse(out)
	return &iterator{out}, c.spend(len(out))
}

func itemsFilter(c *context, v any, a *args) (any, error) {
	switch v := v.(type) {
	case undefined:
		return &iterator{}, nil
	case *dict:
		pairs, err := dictMethod(v, "items").call(c, a)
		if err != nil {
			return nil, err
		}
		return &iterator{pairs.(*list).items}, nil
	}
	return nil, fmt.Errorf("items needs a mapping, not a %s", typeName(v))
}

// sortBy sorts items by key, stable; strings without case unless caseful.
func (c *context) sortBy(items []any, key func(any) (any, error), caseful, reverse bool) ([]any, error) {
	type keyed struct{ key, item any }
	all := make([]keyed, len(items))
	for i, x := range items {
		k, err := key(x)
		if err != nil {
			return nil, err
		}
		if k, err = c.fold(k, caseful); err != nil {
			return nil, err
		}
		all[i] = keyed{k, x}
	}
	var failed error
	slices.SortStableFunc(all, func(a, b keyed) int {
		if failed != nil {
			return 0
		}
		n, err := c.compare(a.key, b.key, 0)
		if err == nil {
			err = c.spend(0)
		}
		if err != nil {
			failed = err
		}
		if reverse {
			return -n
		}
		return n
	})
	out := make([]any, len(all))
	for i, k := range all {
		out[i] = k.item
	}
	return out, failed
}

func (c *context) fold(v any, caseful bool) (any, error) {
	if s, ok := textOf(v); ok && !caseful {
		return lower(s), c.read(s)
	}
	return v, nil
}

func dictSort(c *context, v any, a *args) (any, error) {
	p, err := a.bind(0, "case_sensitive", "by", "reverse")
	if err != nil {
		return nil, err
	}
	d, ok := v.(*dict)
	if !ok {
		return nil, fmt.Errorf("dictsort needs a mapping, not a %s", typeName(v))
	}
	by, err := strArg(p[1], "key")
	if err != nil {
		return nil, err
	}
	at := indexOf([]string{"key", "value"}, by)
	if at < 0 {
		return nil, errors.New("dictsort sorts by 'key' or 'value'")
	}
	pairs := make([]any, d.len())
	for i, e := range d.entries {
		pairs[i] = tupleOf(e.key, e.value)
	}
	out, err := c.sortBy(pairs, func(x any) (any, error) { return x.(*list).items[at], nil },
		boolArg(p[0], false), boolArg(p[2], false))
	return listOf(out...), err
}

func sortFilter(c *context, v any, a *args) (any, error) {
	p, err := a.bind(0, "reverse", "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	items, err := c.iterate(v)
	if err != nil {
		return nil, err
	}
	out, err := c.sortBy(items, c.keyOf(p[2]), boolArg(p[1], false), boolArg(p[0], false))
	return listOf(out...), err
}

// keyOf returns a function that takes an attribute of its argument, or the
// argument itself without one.
func (c *context) keyOf(attribute any) func(any) (any, error) {
	return func(x any) (any, error) {
		if absent(attribute) || attribute == nil {
			return x, nil
		}
		return c.path(x, attribute)
	}
}

func unique(c *context, v any, a *args) (any, error) {
	p, err := a.bind(0, "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	items, err := c.iterate(v)
	if err != nil {
		return nil, err
	}
	seen := map[any]bool{}
	out := new(iterator)
	for _, x := range items {
		k, err := c.keyOf(p[1])(x)
		if err != nil {
			return nil, err
		}
		if k, err = c.fold(k, boolArg(p[0], false)); err != nil {
			return nil, err
		}
		if err := c.compared(k); err != nil {
			return nil, err
		}
		h, ok := hashKey(k)
		if !ok {
			return nil, fmt.Errorf("unique does not work with a %s", typeName(k))
		}
		if !seen[h] {
			seen[h] = true
			out.rest = append(out.rest, x)
		}
	}
	return out, c.spend(len(items))
}

func sumFilter(c *context, v any, a *args) (any, error) {
	p, err := a.bind(0, "attribute", "start")
	if err != nil {
		return nil, err
	}
	items, err := c.iterate(v)
	if err != nil {
		return nil, err
	}
	var total any = int64(0)
	if !absent(p[1]) {
		total = p[1]
	}
	if _, ok := textOf(total); ok {
		return nil, errors.New("sum does not work with strings: use join")
	}
	for _, x := range items {
		if x, err = c.keyOf(p[0])(x); err != nil {
			return nil, err
		}
		if total, err = c.binary("+", total, x); err != nil {
			return nil, err
		}
	}
	return total, nil
}

// extreme is min (sign -1) and max (sign 1).
func extreme(sign int) filter {
	return func(c *context, v any, a *args) (any, error) {
		p, err := a.bind(0, "case_sensitive", "attribute")
		if err != nil {
			return nil, err
		}
		items, err := c.iterate(v)
		if err != nil {
			return nil, err
		}
		var best any = undefined{"the extreme of an empty sequence"}
		var bestKey any
		for i, x := range items {
			k, err := c.keyOf(p[1])(x)
			if err != nil {
				return nil, err
			}
			if k, err = c.fold(k, boolArg(p[0], false)); err != nil {
				return nil, err
			}
			if i > 0 {
				n, err := c.compare(k, bestKey, 0)
				if err != nil {
					return nil, err
				}
				if n*sign <= 0 {
					continue
				}
			}
			best, bestKey = x, k
		}
		return best, c.spend(len(items))
	}
}

// mapFilter applies a filter to every item, or takes an attribute of each. Like
// the selectors it takes any false value, none for one, for an empty sequence
// and does not look at its arguments then.
func mapFilter(c *context, v any, a *args) (any, error) {
	if !truth(v) {
		return new(iterator), nil
	}
	items, err := c.iterate(v)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(items))
	if len(a.pos) == 0 {
		p, err := a.bind(0, "attribute", "default")
		if err != nil {
			return nil, err
		}
		if absent(p[0]) {
			return nil, errors.New("map needs a filter's name or an attribute")
		}
		for i, x := range items {
			if out[i], err = c.path(x, p[0]); err != nil {
				return nil, err
			}
			if _, missing := out[i].(undefined); missing && !absent(p[1]) {
				out[i] = p[1]
			}
		}
		return &iterator{out}, c.spend(len(out))
	}
	name, err := strArg(a.pos[0], "")
	if err != nil {
		return nil, err
	}
	f := filters[name]
	if f == nil {
		return nil, unknownFilter(name)
	}
	rest := &args{name: "filter " + name, pos: a.pos[1:], kw: a.kw}
	for i, x := range items {
		if out[i], err = c.filter(f, x, rest); err != nil {
			return nil, err
		}
	}
	return &iterator{out}, c.spend(len(out))
}

// selector is select, reject, selectattr and rejectattr.
func selector(keep, byAttribute bool) filter {
	return func(c *context, v any, a *args) (any, error) {
		if !truth(v) {
			return new(iterator), nil
		}
		items, err := c.iterate(v)
		if err != nil {
			return nil, err
		}
		pos := a.pos
		var attribute any = absentArg{}
		if byAttribute {
			if len(pos) == 0 {
				return nil, fmt.Errorf("%s needs an attribute", a.name)
			}
			attribute, pos = pos[0], pos[1:]
		}
		is := test(func(_ *context, v any, _ *args) (bool, error) { return truth(v), nil })
		rest := &args{name: "test"}
		if len(pos) > 0 {
			name, err := strArg(pos[0], "")
			if err != nil {
				return nil, err
			}
			if is = tests[name]; is == nil {
				return nil, unknownTest(name)
			}
			rest = &args{name: "test " + name, pos: pos[1:], kw: a.kw}
		}
		out := new(iterator)
		for _, x := range items {
			k, err := c.keyOf(attribute)(x)
			if err != nil {
				return nil, err
			}
			ok, err := is(c, k, rest)
			if err != nil {
				return nil, err
			}
			if ok == keep {
				out.rest = append(out.rest, x)
			}
		}
		return out, c.spend(len(items))
	}
}
