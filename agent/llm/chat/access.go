package chat

import "fmt"

// attribute is v.name: methods first, then items, as Jinja's getattr.
func (c *context) attribute(v any, name string) any {
	methods, attrs := map[string]function(nil), new(dict)
	switch v := v.(type) {
	case undefined:
		panic(c.undefinedError(v))
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
		if _, ok := v.(markup); ok {
			f = markupMethod(name, f)
		}
		return &callable{"." + name, v, f}
	}
	if x, ok := attrs.get(name); ok {
		return x
	}
	return undefined{fmt.Sprintf("'%s' of a %s", name, typeName(v))}
}

// item is v[key]: items first, then attributes if key is a string.
func (c *context) item(v, key any) any {
	if u, ok := v.(undefined); ok {
		panic(c.undefinedError(u))
	}
	if d, ok := v.(*dict); ok {
		c.compared(key)
		if x, ok := d.get(key); ok {
			return x
		}
	}
	if _, isInt, i, ok := number(key); ok && isInt {
		if items, runes, ok := c.sequence(v); ok {
			n := int64(max(len(items), len(runes)))
			at := i
			if at < 0 {
				at += n
			}
			switch {
			case at < 0 || at >= n:
			case items != nil:
				return items[at]
			default:
				return asKindOf(v, string(runes[at]))
			}
		}
		return undefined{fmt.Sprintf("item %d of a %s", i, typeName(v))}
	}
	if name, ok := textOf(key); ok {
		return c.attribute(v, name)
	}
	return undefined{fmt.Sprintf("that item of a %s", typeName(v))}
}

// sequence returns the items of a list or the runes of a string.
func (c *context) sequence(v any) (items []any, runes []rune, ok bool) {
	switch v := unwrap(v).(type) {
	case *list:
		return v.items, nil, true
	case string:
		c.read(v)
		return nil, []rune(v), true
	}
	return nil, nil, false
}

// slice is v[a:b:step]. Bounds that are nil are omitted.
func (c *context) slice(v any, parts [3]any) any {
	if u, ok := v.(undefined); ok {
		panic(c.undefinedError(u))
	}
	items, runes, ok := c.sequence(v)
	if !ok {
		panic(c.errorf("a %s cannot be sliced", typeName(v)))
	}
	picks := c.slicePicks(max(len(items), len(runes)), parts)
	c.spend(len(picks))
	if l, ok := v.(*list); ok {
		out := &list{items: make([]any, len(picks)), tuple: l.tuple}
		for i, p := range picks {
			out.items[i] = items[p]
		}
		return out
	}
	out := make([]rune, len(picks))
	for i, p := range picks {
		out[i] = runes[p]
	}
	return asKindOf(v, string(out))
}

// slicePicks lists the positions that a slice takes from n items
// (Python's slice.indices).
func (c *context) slicePicks(n int, parts [3]any) []int {
	step := 1
	if parts[2] != nil {
		step = c.intArg(parts[2], 0)
	}
	if step == 0 {
		panic(c.errorf("slice step is zero"))
	}
	low, high := 0, n // positions are clamped to these
	if step < 0 {
		low, high = -1, n-1
	}
	bound := func(part any, def int) int {
		if part == nil {
			return def
		}
		v := c.intArg(part, 0)
		if v < 0 {
			v += n
		}
		return min(max(v, low), high)
	}
	var picks []int
	if step > 0 {
		for i, end := bound(parts[0], low), bound(parts[1], high); i < end; i += step {
			picks = append(picks, i)
		}
		return picks
	}
	for i, end := bound(parts[0], high), bound(parts[1], low); i > end; i += step {
		picks = append(picks, i)
	}
	return picks
}
