package chat

import "fmt"

// attribute returns v.name as Jinja's getattr does: the method of that name or, without one, the item.
func (c *context) attribute(v any, name string) any {
	methods, attrs := map[string]function(nil), new(dict)
	c.defined(v)
	switch v := v.(type) {
	case *loop:
		return v.attribute(name)
	case *namespace:
		attrs = v.attrs
	case *dict:
		methods, attrs = dictMethods, v
	case string, markup:
		methods = stringMethods
	case *list:
		methods = listMethods
	}
	if f := methods[name]; f != nil {
		return &callable{"." + name, v, keepKind(f)}
	}
	if x, ok := attrs.get(name); ok {
		return x
	}
	return undefined{fmt.Sprintf("'%s' of a %s", name, typeName(v))}
}

// item returns v[key]: an item, or else the attribute named by a string key.
func (c *context) item(v, key any) any {
	c.defined(v)
	if d, ok := v.(*dict); ok {
		c.spendCompare(key)
		if x, ok := d.get(key); ok {
			return x
		}
	}
	if _, isInt, i, ok := number(key); ok && isInt {
		switch x := unwrap(v).(type) {
		case *list:
			if at, ok := position(i, len(x.items)); ok {
				return x.items[at]
			}
		case string:
			c.spendRead(x)
			runes := []rune(x)
			if at, ok := position(i, len(runes)); ok {
				return asKindOf(v, string(runes[at]))
			}
		}
		return undefined{fmt.Sprintf("item %d of a %s", i, typeName(v))}
	}
	if name, ok := textOf(key); ok {
		return c.attribute(v, name)
	}
	return undefined{fmt.Sprintf("an item of a %s", typeName(v))}
}

// position returns the index of item i in a list of n items. A negative i counts
// from the end. ok is false if there is no such item.
func position(i int64, n int) (at int, ok bool) {
	if i < 0 {
		i += int64(n)
	}
	return int(i), i >= 0 && i < int64(n)
}

// slice returns v[a:b:step]. The argument parts lists a, b and step; an omitted one is nil.
func (c *context) slice(v any, parts [3]any) any {
	c.defined(v)
	switch x := unwrap(v).(type) {
	case *list:
		return &list{items: pick(c, x.items, parts), tuple: x.tuple}
	case string:
		c.spendRead(x)
		return asKindOf(v, string(pick(c, []rune(x), parts)))
	}
	panic(c.errorf("a %s cannot be sliced", typeName(v)))
}

// pick returns the items that a slice selects, as Python's slice.indices does.
func pick[T any](c *context, items []T, parts [3]any) []T {
	step := 1
	if parts[2] != nil {
		step = c.intArg(parts[2], 0)
	}
	if step == 0 {
		panic(c.errorf("slice step is zero"))
	}
	low, high := 0, len(items) // bounds of the slice are clamped to this range
	if step < 0 {
		low, high = -1, len(items)-1
	}
	bound := func(part any, def int) int {
		if part == nil {
			return def
		}
		v := c.intArg(part, 0)
		if v < 0 {
			v += len(items)
		}
		return min(max(v, low), high)
	}
	from, to := bound(parts[0], low), bound(parts[1], high)
	if step < 0 {
		from, to = bound(parts[0], high), bound(parts[1], low)
	}
	var picked []T
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		picked = append(picked, items[i])
	}
	c.spend(len(picked))
	return picked
}
