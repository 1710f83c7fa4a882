package chat

import (
	"fmt"
	"slices"
)

// attribute is v.name: methods first, then items, as Jinja's getattr.
func (c *context) attribute(v any, name string) (any, error) {
	switch v := v.(type) {
	case undefined:
		return nil, v.err()
	case *loop:
		return v.attribute(name), nil
	case *namespace:
		if x, ok := v.attrs.get(name); ok {
			return x, nil
		}
	case *dict:
		if m := dictMethod(v, name); m != nil {
			return m, nil
		}
		if x, ok := v.get(name); ok {
			return x, nil
		}
	case string:
		if f, ok := stringMethods[name]; ok {
			return bound(name, v, f), nil
		}
	case markup:
		if f, ok := stringMethods[name]; ok {
			return bound(name, v, markupMethod(name, f)), nil
		}
	case *list:
		if f, ok := listMethods[name]; ok {
			return &callable{"." + name, func(c *context, a *args) (any, error) { return f(c, v, a) }}, nil
		}
	}
	return undefined{fmt.Sprintf("'%s' of a %s", name, typeName(v))}, nil
}

// bound is a method of the string or markup v.
func bound[T any](name string, v T, f method[T]) *callable {
	return &callable{"." + name, func(c *context, a *args) (any, error) {
		if err := c.readAll(v, a); err != nil {
			return nil, err
		}
		return f(c, v, a)
	}}
}

// item is v[key]: items first, then, for strings, attributes.
func (c *context) item(v, key any) (any, error) {
	if u, ok := v.(undefined); ok {
		return nil, u.err()
	}
	if d, ok := v.(*dict); ok {
		if err := c.compared(key); err != nil {
			return nil, err
		}
		if x, ok := d.get(key); ok {
			return x, nil
		}
	}
	if _, isInt, i, ok := number(key); ok && isInt {
		switch seq := unwrap(v).(type) {
		case *list:
			if i < 0 {
				i += int64(len(seq.items))
			}
			if i >= 0 && i < int64(len(seq.items)) {
				return seq.items[i], nil
			}
		case string:
			if err := c.read(v); err != nil {
				return nil, err
			}
			runes := []rune(seq)
			if i < 0 {
				i += int64(len(runes))
			}
			if i >= 0 && i < int64(len(runes)) {
				return asKindOf(v, string(runes[i])), nil
			}
		}
		return undefined{fmt.Sprintf("item %d of a %s", i, typeName(v))}, nil
	}
	if name, ok := textOf(key); ok {
		return c.attribute(v, name)
	}
	return undefined{fmt.Sprintf("that item of a %s", typeName(v))}, nil
}

// slice is v[a:b:step].
func (c *context) slice(v any, parts [3]any) (any, error) {
	var items []any
	var runes []rune
	n := 0
	switch v := unwrap(v).(type) {
	case *list:
		items, n = v.items, len(v.items)
	case string:
		if err := c.read(v); err != nil {
			return nil, err
		}
		runes = []rune(v)
		n = len(runes)
	case undefined:
		return nil, v.err()
	default:
		return nil, fmt.Errorf("a %s cannot be sliced", typeName(v))
	}
	picks, err := slicePicks(n, parts)
	if err != nil {
		return nil, err
	}
	if err := c.spend(len(picks)); err != nil {
		return nil, err
	}
	if l, ok := v.(*list); ok {
		out := make([]any, len(picks))
		for i, p := range picks {
			out[i] = items[p]
		}
		return &list{items: out, tuple: l.tuple}, nil
	}
	out := make([]rune, len(picks))
	for i, p := range picks {
		out[i] = runes[p]
	}
	return asKindOf(v, string(out)), nil
}

// slicePicks lists the positions that a slice takes from n items
// (Python's slice.indices).
func slicePicks(n int, parts [3]any) ([]int, error) {
	var bound [3]int
	var given [3]bool
	for i, p := range parts {
		if p == nil {
			continue
		}
		v, err := intArg(p, 0)
		if err != nil {
			return nil, fmt.Errorf("slice: %w", err)
		}
		bound[i], given[i] = v, true
	}
	step := 1
	if given[2] {
		step = bound[2]
	}
	if step == 0 {
		return nil, fmt.Errorf("slice step is zero")
	}
	low, high := 0, n // where positions are clamped to
	if step < 0 {
		low, high = -1, n-1
	}
	at := func(i, def int) int {
		if !given[i] {
			return def
		}
		v := bound[i]
		if v < 0 {
			v += n
		}
		return min(max(v, low), high)
	}
	var picks []int
	if step > 0 {
		for i := at(0, 0); i < at(1, n); i += step {
			picks = append(picks, i)
		}
		return picks, nil
	}
	for i := at(0, n-1); i > at(1, -1); i += step {
		picks = append(picks, i)
	}
	return slices.Clip(picks), nil
}
