package chat

import "math"

// test is what stands after 'is'.
type test func(c *context, v any, a *args) (bool, error)

var tests map[string]test

func init() {
	tests = map[string]test{
		"defined":   unary(func(v any) bool { _, u := v.(undefined); return !u }),
		"undefined": unary(func(v any) bool { _, u := v.(undefined); return u }),
		"none":      unary(func(v any) bool { return v == nil }),
		"true":      unary(func(v any) bool { return v == true }),
		"false":     unary(func(v any) bool { return v == false }),
		"boolean":   unary(func(v any) bool { _, ok := v.(bool); return ok }),
		"integer":   unary(func(v any) bool { _, ok := v.(int64); return ok }),
		"float":     unary(func(v any) bool { _, ok := v.(float64); return ok }),
		"number":    unary(func(v any) bool { _, _, _, ok := number(v); return ok }),
		"string":    unary(func(v any) bool { _, ok := textOf(v); return ok }),
		"escaped":   unary(func(v any) bool { _, ok := v.(markup); return ok }),
		"mapping":   unary(func(v any) bool { _, ok := v.(*dict); return ok }),
		"callable":  unary(func(v any) bool { _, ok := v.(*callable); return ok }),
		// Strings and undefined values are sequences to Jinja too.
		"sequence": unary(sequence),
		"iterable": unary(func(v any) bool { _, ok := v.(*iterator); return ok || sequence(v) }),
		"lower":    onText(func(s string) bool { return s == lower(s) && s != upper(s) }),
		"upper":    onText(func(s string) bool { return s == upper(s) && s != lower(s) }),
		"even":     divisible(2, 0),
		"odd":      divisible(2, 1),
		"divisibleby": func(c *context, v any, a *args) (bool, error) {
			p, err := a.bind(1, "num")
			if err != nil {
				return false, err
			}
			r, err := c.binary("%", v, p[0])
			if err != nil {
				return false, err
			}
			return !truth(r), nil
		},
		"in": func(c *context, v any, a *args) (bool, error) {
			p, err := a.bind(1, "seq")
			if err != nil {
				return false, err
			}
			return c.contains(p[0], v)
		},
		"sameas": func(c *context, v any, a *args) (bool, error) {
			p, err := a.bind(1, "other")
			if err == nil {
				err = c.compared(v)
			}
			if err != nil {
				return false, err
			}
			if f, ok := v.(float64); ok {
				g, ok := p[0].(float64)
				return ok && math.Float64bits(f) == math.Float64bits(g), nil
			}
			return v == p[0], nil
		},
		"filter": knows(func(name string) bool { return filters[name] != nil }),
		"test":   knows(func(name string) bool { return tests[name] != nil }),
	}
	for op, names := range map[string][]string{
		"==": {"eq", "equalto", "=="}, "!=": {"ne", "!="}, "<": {"lt", "lessthan", "<"}, "<=": {"le", "<="},
		">": {"gt", "greaterthan", ">"}, ">=": {"ge", ">="},
	} {
		for _, name := range names {
			tests[name] = func(c *context, v any, a *args) (bool, error) {
				p, err := a.bind(1, "other")
				if err != nil {
					return false, err
				}
				return c.compareOp(op, v, p[0])
			}
		}
	}
}

func sequence(v any) bool {
	switch v.(type) {
	case string, markup, *list, *dict, undefined:
		return true
	}
	return false
}

func unary(f func(any) bool) test {
	return func(_ *context, v any, a *args) (bool, error) {
		_, err := a.bind(0)
		return f(v), err
	}
}

func onText(f func(string) bool) test {
	return func(c *context, v any, a *args) (bool, error) {
		if _, err := a.bind(0); err != nil {
			return false, err
		}
		s, err := c.str(v)
		if err == nil {
			err = c.read(s)
		}
		if err != nil {
			return false, err
		}
		return f(s), nil
	}
}

func divisible(by, rest int64) test {
	return func(c *context, v any, a *args) (bool, error) {
		if _, err := a.bind(0); err != nil {
			return false, err
		}
		r, err := c.binary("%", v, by)
		if err != nil {
			return false, err
		}
		return c.equal(r, rest, 0)
	}
}

func knows(f func(string) bool) test {
	return func(_ *context, v any, a *args) (bool, error) {
		_, err := a.bind(0)
		name, ok := textOf(v)
		return ok && f(name), err
	}
}
