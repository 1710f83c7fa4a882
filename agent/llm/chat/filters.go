package chat

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// filters are Jinja's filters, with Hugging Face's tojson. The map is filled in
// init because the filters map and select look up filters and tests by name.
var filters map[string]function

func init() {
	filters = map[string]function{
		"trim":       keepKind(stripper(strings.TrimFunc)),
		"upper":      keepKind(onText(upper)),
		"lower":      keepKind(onText(lower)),
		"capitalize": keepKind(onText(capitalize)),
		"title": onText(func(s string) string {
			return title(s, func(r rune) bool { return isSpace(r) || strings.ContainsRune("-({[<", r) }, upper)
		}),
		"escape":     takes("", func(c *context, v any, _ []any) any { return c.escaped(v) }),
		"safe":       takes("", func(c *context, v any, _ []any) any { return markup(c.text(c.str(v))) }),
		"string":     keepKind(takes("", func(c *context, v any, _ []any) any { return c.text(c.str(v)) })),
		"replace":    takes("old! new! count", func(c *context, v any, p []any) any { return replace(c, c.str(v), p) }),
		"indent":     keepKind(takes("width first blank", indent)),
		"tojson":     takes("ensure_ascii indent separators sort_keys", toJSON),
		"length":     takes("", length),
		"default":    takes("default_value boolean", defaultFilter),
		"int":        takes("default base", intFilter),
		"float":      takes("default", floatFilter),
		"abs":        takes("", abs),
		"round":      takes("precision method", round),
		"list":       takes("", func(c *context, v any, _ []any) any { return listOf(c.iterate(v)...) }),
		"first":      takes("", first),
		"last":       takes("", last),
		"join":       takes("d attribute", joinFilter),
		"reverse":    keepKind(takes("", reverse)),
		"items":      itemsFilter,
		"dictsort":   takes("case_sensitive by reverse", dictSort),
		"sort":       takes("reverse case_sensitive attribute", sortFilter),
		"unique":     takes("case_sensitive attribute", unique),
		"sum":        takes("attribute start", sum),
		"min":        takes("case_sensitive attribute", extreme(-1)),
		"max":        takes("case_sensitive attribute", extreme(1)),
		"map":        mapFilter,
		"select":     selector(true, false),
		"reject":     selector(false, false),
		"selectattr": selector(true, true),
		"rejectattr": selector(false, true),
	}
	for short, long := range map[string]string{"e": "escape", "count": "length", "d": "default"} {
		filters[short] = filters[long]
	}
}

func indent(c *context, v any, p []any) any {
	if _, ok := p[0].(markup); ok {
		panic(c.errorf("indent by a string that is marked safe is not supported"))
	}
	pad, ok := p[0].(string)
	if !ok {
		n := max(c.intArg(p[0], 4), 0)
		c.checkBytes(n)
		pad = strings.Repeat(" ", n)
	}
	s := c.str(v)
	lines := splitLines(s + "\n")
	c.checkBytes(len(s) + len(lines)*len(pad))
	for i := range lines {
		if i == 0 && truth(p[1]) || i > 0 && (lines[i] != "" || truth(p[2])) {
			lines[i] = pad + lines[i]
		}
	}
	return c.text(strings.Join(lines, "\n"))
}

func length(c *context, v any, _ []any) any {
	switch v := unwrap(v).(type) {
	case string:
		c.spend(len(v) / 64)
		return int64(utf8.RuneCountInString(v))
	case *list:
		return int64(len(v.items))
	case *dict:
		return int64(v.len())
	case undefined:
		return int64(0)
	}
	panic(c.errorf("a %s has no length", typeName(v)))
}

// valueOr returns the argument v, or def if it was not given.
func valueOr(v, def any) any {
	if absent(v) {
		return def
	}
	return v
}

func defaultFilter(_ *context, v any, p []any) any {
	_, missing := v.(undefined)
	if missing || truth(p[1]) && !truth(v) {
		return valueOr(p[0], "")
	}
	return v
}

func intFilter(c *context, v any, p []any) any {
	base := c.intArg(p[1], 10)
	c.defined(v)
	if s, ok := textOf(v); ok {
		s = strings.ReplaceAll(strings.TrimFunc(s, isSpace), "_", "")
		if prefix, ok := map[int]string{16: "0x", 8: "0o", 2: "0b"}[base]; ok {
			s = strings.TrimPrefix(strings.ToLower(s), prefix)
		}
		if base < 2 || base > 36 {
			panic(c.errorf("base %d is not between 2 and 36", base))
		}
		if i, err := strconv.ParseInt(s, base, 64); err == nil {
			return i
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			v = f
		}
	}
	f, isInt, i, ok := number(v)
	switch {
	case ok && isInt:
		return i
	case ok && math.Abs(f) < 1<<62:
		return int64(f)
	}
	return valueOr(p[0], int64(0))
}

func floatFilter(c *context, v any, p []any) any {
	c.defined(v)
	if s, ok := textOf(v); ok {
		if f, err := strconv.ParseFloat(strings.TrimFunc(s, isSpace), 64); err == nil {
			return f
		}
	}
	if f, _, _, ok := number(v); ok {
		return f
	}
	return valueOr(p[0], 0.0)
}

func abs(c *context, v any, _ []any) any {
	f, isInt, i, ok := number(v)
	switch {
	case !ok:
		panic(c.operandError("abs", v))
	case isInt && i < 0:
		return -i
	case isInt:
		return i
	}
	return math.Abs(f)
}

func round(c *context, v any, p []any) any {
	digits, method := c.intArg(p[0], 0), c.strArg(p[1], "common")
	f, _, _, ok := number(v)
	if !ok {
		panic(c.operandError("round", v))
	}
	if digits < -300 || digits > 300 {
		panic(c.errorf("the precision is not between -300 and 300"))
	}
	scale := math.Pow(10, float64(digits))
	switch method {
	case "common":
		if digits < 0 {
			return math.RoundToEven(f*scale) / scale
		}
		// as in Python, the result is correctly rounded
		f, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
		if err != nil {
			panic(c.errorf("round: %v", err))
		}
		return f
	case "floor":
		return math.Floor(f*scale) / scale
	case "ceil":
		return math.Ceil(f*scale) / scale
	}
	panic(c.errorf("round method %q is not common, floor or ceil", method))
}

func reverse(c *context, v any, _ []any) any {
	if s, ok := textOf(v); ok {
		r := []rune(s)
		slices.Reverse(r)
		return c.text(string(r))
	}
	out := slices.Clone(c.iterate(v))
	slices.Reverse(out)
	c.spend(len(out))
	return &iterator{out}
}
