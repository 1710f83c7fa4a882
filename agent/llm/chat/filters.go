package chat

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// filter is a filter; v is what it is applied to.
type filter func(c *context, v any, a *args) (any, error)

// filters are Jinja's, with Hugging Face's tojson. The map is filled in init
// because map and select look filters and tests up in it.
var filters map[string]filter

func init() {
	filters = map[string]filter{
		"trim": func(c *context, v any, a *args) (any, error) {
			s, err := c.str(v)
			if err != nil {
				return nil, err
			}
			out, err := stringMethods["strip"](c, s, a)
			return asKindOf(v, out), err
		},
		"upper":      keepKind(onString(upper)),
		"lower":      keepKind(onString(lower)),
		"capitalize": keepKind(onString(capitalize)),
		"title":      onString(filterTitle),
		"escape":     escapeFilter,
		"e":          escapeFilter,
		"safe": func(c *context, v any, a *args) (any, error) {
			s, err := onString(noChange)(c, v, a)
			return asMarkup(s), err
		},
		"string": keepKind(onString(noChange)),
		"replace": func(c *context, v any, a *args) (any, error) {
			s, err := c.str(v)
			if err != nil {
				return nil, err
			}
			return c.replace(s, a, "old", "new")
		},
		"indent":     keepKind(indentFilter),
		"tojson":     toJSON,
		"length":     length,
		"count":      length,
		"default":    defaultFilter,
		"d":          defaultFilter,
		"int":        intFilter,
		"float":      floatFilter,
		"abs":        absFilter,
		"round":      roundFilter,
		"list":       listFilter,
		"first":      firstFilter,
		"last":       lastFilter,
		"join":       joinFilter,
		"reverse":    keepKind(reverseFilter),
		"items":      itemsFilter,
		"dictsort":   dictSort,
		"sort":       sortFilter,
		"unique":     unique,
		"sum":        sumFilter,
		"min":        extreme(-1),
		"max":        extreme(1),
		"map":        mapFilter,
		"select":     selector(true, false),
		"reject":     selector(false, false),
		"selectattr": selector(true, true),
		"rejectattr": selector(false, true),
	}
}

func onString(f func(string) string) filter {
	return func(c *context, v any, a *args) (any, error) {
		if _, err := a.bind(0); err != nil {
			return nil, err
		}
		s, err := c.str(v)
		if err != nil {
			return nil, err
		}
		return c.text(f(s))
	}
}

func noChange(s string) string { return s }

// keepKind is f with its result markup where f is applied to markup.
func keepKind(f filter) filter {
	return func(c *context, v any, a *args) (any, error) {
		out, err := f(c, v, a)
		return asKindOf(v, out), err
	}
}

func escapeFilter(c *context, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	return c.escaped(v)
}

// filterTitle upper-cases after white space, hyphens and opening brackets,
// unlike the method of that name.
func filterTitle(s string) string {
	var sb strings.Builder
	start := true
	for _, r := range s {
		if isSpace(r) || strings.ContainsRune("-({[<", r) {
			start = true
			sb.WriteRune(r)
			continue
		}
		if start {
			sb.WriteString(upper(string(r)))
		} else {
			sb.WriteString(lower(string(r)))
		}
		start = false
	}
	return sb.String()
}

func indentFilter(c *context, v any, a *args) (any, error) {
	p, err := a.bind(0, "width", "first", "blank")
	if err != nil {
		return nil, err
	}
	pad, isText := textOf(p[0])
	if _, ok := p[0].(markup); ok {
		return nil, errors.New("indent by a string that is marked safe is not supported")
	}
	if !isText {
		n, err := intArg(p[0], 4)
		if err != nil {
			return nil, err
		}
		if n > maxString {
			return nil, errLong
		}
		pad = strings.Repeat(" ", max(n, 0))
	}
	s, err := c.str(v)
	if err != nil {
		return nil, err
	}
	lines := splitLines(s + "\n")
	if len(s)+len(lines)*len(pad) > maxString {
		return nil, errLong
	}
	for i := range lines {
		switch {
		case i == 0 && !boolArg(p[1], false):
		case i > 0 && lines[i] == "" && !boolArg(p[2], false):
		default:
			lines[i] = pad + lines[i]
		}
	}
	return c.text(strings.Join(lines, "\n"))
}

func length(c *context, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	switch v := unwrap(v).(type) {
	case string:
		return int64(utf8.RuneCountInString(v)), c.spend(len(v) / 64)
	case *list:
		return int64(len(v.items)), nil
	case *dict:
		return int64(v.len()), nil
	case undefined:
		return int64(0), nil
	}
	return nil, fmt.Errorf("a %s has no length", typeName(v))
}

func defaultFilter(_ *context, v any, a *args) (any, error) {
	p, err := a.bind(0, "default_value", "boolean")
	if err != nil {
		return nil, err
	}
	_, missing := v.(undefined)
	if !missing && !(boolArg(p[1], false) && !truth(v)) {
		return v, nil
	}
	if absent(p[0]) {
		return "", nil
	}
	return p[0], nil
}

func intFilter(_ *context, v any, a *args) (any, error) {
	p, err := a.bind(0, "default", "base")
	if err != nil {
		return nil, err
	}
	base, err := intArg(p[1], 10)
	if err != nil {
		return nil, err
	}
	if u, ok := v.(undefined); ok {
		return nil, u.err()
	}
	if s, ok := textOf(v); ok {
		s = strings.ReplaceAll(strings.TrimFunc(s, isSpace), "_", "")
		if base == 16 || base == 8 || base == 2 {
			s = strings.TrimPrefix(strings.ToLower(s), map[int]string{16: "0x", 8: "0o", 2: "0b"}[base])
		}
		if base < 2 || base > 36 {
			return nil, fmt.Errorf("base %d is not between 2 and 36", base)
		}
		if i, err := strconv.ParseInt(s, base, 64); err == nil {
			return i, nil
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			v = f
		}
	}
	f, isInt, i, ok := number(v)
	switch {
	case ok && isInt:
		return i, nil
	case ok && math.Abs(f) < 1<<62:
		return int64(f), nil
	case absent(p[0]):
		return int64(0), nil
	}
	return p[0], nil
}

func floatFilter(_ *context, v any, a *args) (any, error) {
	p, err := a.bind(0, "default")
	if err != nil {
		return nil, err
	}
	if u, ok := v.(undefined); ok {
		return nil, u.err()
	}
	if s, ok := textOf(v); ok {
		if f, err := strconv.ParseFloat(strings.TrimFunc(s, isSpace), 64); err == nil {
			return f, nil
		}
	}
	if f, _, _, ok := number(v); ok {
		return f, nil
	}
	if absent(p[0]) {
		return 0.0, nil
	}
	return p[0], nil
}

func absFilter(_ *context, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	f, isInt, i, ok := number(v)
	switch {
	case !ok:
		return nil, operandErr("abs", v)
	case isInt && i < 0:
		return -i, nil
	case isInt:
		return i, nil
	}
	return math.Abs(f), nil
}

func roundFilter(_ *context, v any, a *args) (any, error) {
	p, err := a.bind(0, "precision", "method")
	if err != nil {
		return nil, err
	}
	digits, err := intArg(p[0], 0)
	if err != nil {
		return nil, err
	}
	how, err := strArg(p[1], "common")
	if err != nil {
		return nil, err
	}
	f, _, _, ok := number(v)
	if !ok {
		return nil, operandErr("round", v)
	}
	if digits < -300 || digits > 300 {
		return nil, errors.New("the precision is not between -300 and 300")
	}
	scale := math.Pow(10, float64(digits))
	switch how {
	case "common":
		if digits >= 0 { // correctly rounded, as Python's round is
			s := strconv.FormatFloat(f, 'f', digits, 64)
			out, err := strconv.ParseFloat(s, 64)
			return out, err
		}
		return math.RoundToEven(f*scale) / scale, nil
	case "floor":
		return math.Floor(f*scale) / scale, nil
	case "ceil":
		return math.Ceil(f*scale) / scale, nil
	}
	return nil, fmt.Errorf("round method %q is not common, floor or ceil", how)
}
