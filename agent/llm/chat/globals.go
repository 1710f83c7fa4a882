package chat

import (
	"cmp"
	"math"
	"regexp"
	"strings"
	"time"
)

// functions are the global functions of a template.
var functions = map[string]function{
	"range":     takes("start! stop step", rangeFunc),
	"namespace": func(c *context, _ any, a *args) any { return &namespace{c.dict(a)} },
	"dict":      func(c *context, _ any, a *args) any { return c.dict(a) },
	"raise_exception": takes("message!", func(c *context, _ any, p []any) any {
		panic(c.errorf("the template refuses this conversation: %s", c.str(p[0])))
	}),
	"strftime_now": takes("format!", func(c *context, _ any, p []any) any {
		return c.strftime(c.now(), c.strArg(p[0], ""))
	}),
}

// maxRange is the maximum length of a range, as in Jinja's sandbox.
const maxRange = 100_000

func rangeFunc(c *context, _ any, p []any) any {
	start, stop, step := c.intArg(p[0], 0), c.intArg(p[1], 0), c.intArg(p[2], 1)
	if absent(p[1]) {
		start, stop = 0, start
	}
	if step == 0 {
		panic(c.errorf("the step of a range is zero"))
	}
	out := listOf()
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(out.items) == maxRange {
			panic(c.errorf("a range is longer than %d", maxRange))
		}
		out.items = append(out.items, int64(i))
	}
	c.spend(len(out.items))
	return out
}

// dict makes a mapping from another mapping and keyword arguments.
func (c *context) dict(a *args) *dict {
	d := new(dict)
	if len(a.pos) > 1 {
		panic(c.errorf("%s takes one mapping and keywords", a.name))
	}
	if len(a.pos) == 1 {
		from, ok := a.pos[0].(*dict)
		if !ok {
			panic(c.errorf("%s needs a mapping, not a %s", a.name, typeName(a.pos[0])))
		}
		for _, e := range from.entries {
			d.set(e.key, e.value)
		}
	}
	for _, e := range a.kw.entries {
		d.set(e.key, e.value)
	}
	return d
}

// strftimeLayouts maps Python's directives to Go's layouts.
var strftimeLayouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'm': "01", 'y': "06", 'Y': "2006",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'j': "002", 'Z': "", 'z': "",
	'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'e': "_2", '%': "%",
}

var directives = regexp.MustCompile(`(?s)%-?.?`)

// strftime formats a time as Python's naive datetime does.
func (c *context) strftime(t time.Time, format string) string {
	return directives.ReplaceAllStringFunc(format, func(d string) string {
		layout, ok := strftimeLayouts[d[len(d)-1]]
		if !ok || len(d) == 1 {
			panic(c.errorf("strftime_now: the directive %s is not supported", d))
		}
		text := t.Format(layout)
		if strings.HasPrefix(d, "%-") { // without leading zeros
			text = cmp.Or(strings.TrimLeft(text, "0"), "0")
		}
		return text
	})
}

// tests are Jinja's tests, the functions after 'is'.
var tests map[string]function

func init() {
	tests = map[string]function{
		"defined":   isA(func(v any) bool { _, u := v.(undefined); return !u }),
		"undefined": kindTest[undefined](),
		"none":      isA(func(v any) bool { return v == nil }),
		"true":      isA(func(v any) bool { return v == true }),
		"false":     isA(func(v any) bool { return v == false }),
		"boolean":   kindTest[bool](),
		"integer":   kindTest[int64](),
		"float":     kindTest[float64](),
		"number":    isA(func(v any) bool { _, _, _, ok := number(v); return ok }),
		"string":    isA(func(v any) bool { _, ok := textOf(v); return ok }),
		"escaped":   kindTest[markup](),
		"mapping":   kindTest[*dict](),
		"callable":  kindTest[*callable](),
		"sequence":  isA(isSequence),
		"iterable":  isA(func(v any) bool { _, ok := v.(*iterator); return ok || isSequence(v) }),
		"lower":     textTest(isLower),
		"upper":     textTest(isUpper),
		"even":      takes("", func(c *context, v any, _ []any) any { return c.equal(c.binary("%", v, int64(2)), int64(0), 0) }),
		"odd":       takes("", func(c *context, v any, _ []any) any { return c.equal(c.binary("%", v, int64(2)), int64(1), 0) }),
		"divisibleby": takes("num!", func(c *context, v any, p []any) any {
			return !truth(c.binary("%", v, p[0]))
		}),
		"in": takes("seq!", func(c *context, v any, p []any) any { return c.contains(p[0], v) }),
		"sameas": takes("other!", func(c *context, v any, p []any) any {
			c.spendCompare(v)
			if f, ok := v.(float64); ok {
				g, ok := p[0].(float64)
				return ok && math.Float64bits(f) == math.Float64bits(g)
			}
			return v == p[0]
		}),
		"filter": isA(func(v any) bool { name, _ := textOf(v); return filters[name] != nil }),
		"test":   isA(func(v any) bool { name, _ := textOf(v); return tests[name] != nil }),
	}
	for op, names := range map[string][]string{
		"==": {"eq", "equalto"}, "!=": {"ne"}, "<": {"lt", "lessthan"}, "<=": {"le"}, ">": {"gt", "greaterthan"}, ">=": {"ge"},
	} {
		for _, name := range append(names, op) {
			tests[name] = takes("other!", func(c *context, v any, p []any) any { return c.compareOp(op, v, p[0]) })
		}
	}
}

func isA(f func(any) bool) function {
	return takes("", func(_ *context, v any, _ []any) any { return f(v) })
}

func kindTest[T any]() function {
	return isA(func(v any) bool { _, ok := v.(T); return ok })
}

// isSequence implements the test "sequence", which strings and undefined pass too.
func isSequence(v any) bool {
	switch v.(type) {
	case string, markup, *list, *dict, undefined:
		return true
	}
	return false
}
