package chat

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// method is a method of a string or list.
type method[T any] func(c *context, v T, a *args) (any, error)

func upper(s string) string {
	if ascii(s) {
		return strings.ToUpper(s)
	}
	return cases.Upper(language.Und).String(s)
}

func lower(s string) string {
	if ascii(s) {
		return strings.ToLower(s)
	}
	return cases.Lower(language.Und).String(s)
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// stringMethods are Python's, as far as templates use them.
var stringMethods = map[string]method[string]{
	"startswith": affix(strings.HasPrefix),
	"endswith":   affix(strings.HasSuffix),
	"strip":      stripper(strings.TrimFunc),
	"lstrip":     stripper(strings.TrimLeftFunc),
	"rstrip":     stripper(strings.TrimRightFunc),
	"upper":      plain(upper),
	"lower":      plain(lower),
	"title":      plain(pyTitle),
	"capitalize": plain(capitalize),
	"split":      split,
	"rsplit":     rsplit,
	"splitlines": func(c *context, s string, a *args) (any, error) {
		if _, err := a.bind(0); err != nil {
			return nil, err
		}
		return c.stringList(splitLines(s))
	},
	"replace": func(c *context, s string, a *args) (any, error) {
		return c.replace(s, a, "old", "new")
	},
	"join": func(c *context, s string, a *args) (any, error) {
		v, err := a.bind(1, "iterable")
		if err != nil {
			return nil, err
		}
		items, err := c.iterate(v[0])
		if err != nil {
			return nil, err
		}
		for _, x := range items {
			if _, ok := textOf(x); !ok {
				return nil, fmt.Errorf(".join needs strings, not a %s", typeName(x))
			}
		}
		return c.join(items, s)
	},
	"find":         finder(strings.Index, false),
	"rfind":        finder(strings.LastIndex, false),
	"index":        finder(strings.Index, true),
	"removeprefix": affixCut(strings.TrimPrefix),
	"removesuffix": affixCut(strings.TrimSuffix),
	"count": func(c *context, s string, a *args) (any, error) {
		v, err := a.bind(1, "sub")
		if err != nil {
			return nil, err
		}
		sub, err := strArg(v[0], "")
		return int64(strings.Count(s, sub)), err
	},
	"isdigit": every(unicode.IsDigit),
	"isalpha": every(unicode.IsLetter),
	"isalnum": every(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
	"isspace": every(isSpace),
	"islower": plainTest(func(s string) bool { return s == lower(s) && s != upper(s) }),
	"isupper": plainTest(func(s string) bool { return s == upper(s) && s != lower(s) }),
	"format":  format,
}

func plain(f func(string) string) method[string] {
	return func(c *context, s string, a *args) (any, error) {
		if _, err := a.bind(0); err != nil {
			return nil, err
		}
		return c.text(f(s))
	}
}

func plainTest(f func(string) bool) method[string] {
	return func(_ *context, s string, a *args) (any, error) {
		_, err := a.bind(0)
		return f(s), err
	}
}

func every(in func(rune) bool) method[string] {
	return plainTest(func(s string) bool {
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !in(r) }) < 0
	})
}

// affix is startswith and endswith: the argument is a string or a tuple of them.
func affix(has func(s, x string) bool) method[string] {
	return func(c *context, s string, a *args) (any, error) {
		v, err := a.bind(1, "prefix")
		if err != nil {
			return nil, err
		}
		options := []any{v[0]}
		if l, ok := v[0].(*list); ok && l.tuple {
			options = l.items
		}
		for _, o := range options {
			x, ok := textOf(o)
			if !ok {
				return nil, fmt.Errorf("%s needs a string or a tuple of strings, not a %s", a.name, typeName(o))
			}
			if err := c.compared(x); err != nil {
				return nil, err
			}
			if has(s, x) {
				return true, nil
			}
		}
		return false, nil
	}
}

func affixCut(cut func(s, x string) string) method[string] {
	return func(_ *context, s string, a *args) (any, error) {
		v, err := a.bind(1, "affix")
		if err != nil {
			return nil, err
		}
		x, err := strArg(v[0], "")
		return cut(s, x), err
	}
}

func stripper(trim func(string, func(rune) bool) string) method[string] {
	return func(c *context, s string, a *args) (any, error) {
		v, err := a.bind(0, "chars")
		if err != nil {
			return nil, err
		}
		if absent(v[0]) || v[0] == nil {
			return c.text(trim(s, isSpace))
		}
		chars, err := strArg(v[0], "")
		if err != nil {
			return nil, err
		}
		drop := map[rune]bool{}
		for _, r := range chars {
			drop[r] = true
		}
		return c.text(trim(s, func(r rune) bool { return drop[r] }))
	}
}

func finder(find func(s, sub string) int, must bool) method[string] {
	return func(_ *context, s string, a *args) (any, error) {
		v, err := a.bind(1, "sub")
		if err != nil {
			return nil, err
		}
		sub, err := strArg(v[0], "")
		if err != nil {
			return nil, err
		}
		i := find(s, sub)
		if i < 0 {
			if must {
				return nil, errors.New("substring not found")
			}
			return int64(-1), nil
		}
		return int64(len([]rune(s[:i]))), nil
	}
}

// splitArgs reads the arguments of split and rsplit; sep is "" for white space.
func splitArgs(a *args) (sep string, limit int, err error) {
	v, err := a.bind(0, "sep", "maxsplit")
	if err != nil {
		return "", 0, err
	}
	if !absent(v[0]) && v[0] != nil {
		if sep, err = strArg(v[0], ""); err != nil {
			return "", 0, err
		}
		if sep == "" {
			return "", 0, errors.New("empty separator")
		}
	}
	limit, err = intArg(v[1], -1)
	return sep, limit, err
}

func split(c *context, s string, a *args) (any, error) {
	sep, limit, err := splitArgs(a)
	if err != nil {
		return nil, err
	}
	if sep != "" {
		if limit >= 0 {
			return c.stringList(strings.SplitN(s, sep, limit+1))
		}
		return c.stringList(strings.Split(s, sep))
	}
	var out []string
	rest := strings.TrimLeftFunc(s, isSpace)
	for rest != "" {
		i := strings.IndexFunc(rest, isSpace)
		if limit >= 0 && len(out) == limit {
			i = -1
		}
		if i < 0 {
			out = append(out, rest)
			break
		}
		out = append(out, rest[:i])
		rest = strings.TrimLeftFunc(rest[i:], isSpace)
	}
	return c.stringList(out)
}

func rsplit(c *context, s string, a *args) (any, error) {
	sep, limit, err := splitArgs(a)
	if err != nil {
		return nil, err
	}
	if sep == "" {
		return nil, errors.New(".rsplit without a separator is not supported")
	}
	parts := strings.Split(s, sep)
	if limit >= 0 && len(parts) > limit+1 {
		head := len(parts) - limit
		parts = append([]string{strings.Join(parts[:head], sep)}, parts[head:]...)
	}
	return c.stringList(parts)
}

func (c *context) stringList(parts []string) (any, error) {
	if len(parts) > maxItems {
		return nil, errMany
	}
	out := make([]any, len(parts))
	for i, p := range parts {
		out[i] = p
	}
	return listOf(out...), c.spend(len(out))
}

// splitLines is Python's str.splitlines.
func splitLines(s string) []string {
	var out []string
	for s != "" {
		i := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if i < 0 {
			return append(out, s)
		}
		out = append(out, s[:i])
		n := 1
		switch {
		case strings.HasPrefix(s[i:], "\r\n"):
			n = 2
		case s[i] >= 0x80:
			_, n = utf8.DecodeRuneInString(s[i:])
		}
		s = s[i+n:]
	}
	return out
}

// replace is str.replace and the filter of that name.
func (c *context) replace(s string, a *args, names ...string) (any, error) {
	v, err := a.bind(2, append(names, "count")...)
	if err != nil {
		return nil, err
	}
	from, err := c.str(v[0])
	if err != nil {
		return nil, err
	}
	to, err := c.str(v[1])
	if err != nil {
		return nil, err
	}
	if v[2] == nil {
		v[2] = absentArg{}
	}
	n, err := intArg(v[2], -1)
	if err != nil {
		return nil, err
	}
	found := strings.Count(s, from)
	if n >= 0 {
		found = min(found, n)
	}
	if len(s)+found*max(0, len(to)-len(from)) > maxString {
		return nil, errLong
	}
	return c.text(strings.Replace(s, from, to, n))
}

// format is str.format with {}, {0} and {name}, without format specifications.
func format(c *context, s string, a *args) (any, error) {
	var sb strings.Builder
	next := 0
	for i := 0; i < len(s); i++ {
		if strings.HasPrefix(s[i:], "{{") || strings.HasPrefix(s[i:], "}}") {
			sb.WriteByte(s[i])
			i++
			continue
		}
		if s[i] == '}' {
			return nil, errors.New(".format: a single '}'")
		}
		if s[i] != '{' {
			sb.WriteByte(s[i])
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			return nil, errors.New(".format: a single '{'")
		}
		field := s[i+1 : i+end]
		i += end
		var v any
		ok := false
		switch {
		case strings.ContainsAny(field, ":!.[{"):
			return nil, fmt.Errorf(".format: the field {%s} is not supported", field)
		case field == "":
			if ok = next < len(a.pos); ok {
				v = a.pos[next]
			}
			next++
		case strings.Trim(field, "0123456789") == "" && len(field) < 6:
			n := 0
			for _, d := range field {
				n = 10*n + int(d-'0')
			}
			if ok = n < len(a.pos); ok {
				v = a.pos[n]
			}
		case a.kw != nil:
			v, ok = a.kw.get(field)
		}
		if !ok {
			return nil, fmt.Errorf(".format has no argument for {%s}", field)
		}
		x, err := c.str(v)
		if err != nil {
			return nil, err
		}
		if sb.WriteString(x); sb.Len() > maxString {
			return nil, errLong
		}
	}
	return c.text(sb.String())
}

// pyTitle is str.title: a letter after a non-letter is upper case, others lower.
func pyTitle(s string) string {
	var sb strings.Builder
	inWord := false
	for _, r := range s {
		switch {
		case !unicode.IsLetter(r):
			sb.WriteRune(r)
			inWord = false
			continue
		case inWord:
			sb.WriteString(lower(string(r)))
		default:
			sb.WriteRune(unicode.ToTitle(r))
		}
		inWord = true
	}
	return sb.String()
}

func capitalize(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToTitle(r)) + lower(s[n:])
}

var listMethods = map[string]method[*list]{
	"index": func(c *context, l *list, a *args) (any, error) {
		v, err := a.bind(1, "value")
		if err != nil {
			return nil, err
		}
		for i, x := range l.items {
			if eq, err := c.equal(x, v[0], 0); err != nil || eq {
				return int64(i), err
			}
		}
		return nil, errors.New("the value is not in the list")
	},
	"count": func(c *context, l *list, a *args) (any, error) {
		v, err := a.bind(1, "value")
		if err != nil {
			return nil, err
		}
		n := int64(0)
		for _, x := range l.items {
			eq, err := c.equal(x, v[0], 0)
			if err != nil {
				return nil, err
			}
			if eq {
				n++
			}
		}
		return n, nil
	},
}

// dictMethod returns a method of a mapping, nil if there is none of that name.
func dictMethod(d *dict, name string) *callable {
	var f func(c *context, a *args) (any, error)
	switch name {
	case "items", "keys", "values":
		f = func(c *context, a *args) (any, error) {
			if _, err := a.bind(0); err != nil {
				return nil, err
			}
			out := make([]any, d.len())
			for i, e := range d.entries {
				switch name {
				case "items":
					out[i] = tupleOf(e.key, e.value)
				case "keys":
					out[i] = e.key
				default:
					out[i] = e.value
				}
			}
			return listOf(out...), c.spend(len(out))
		}
	case "get":
		f = func(c *context, a *args) (any, error) {
			v, err := a.bind(1, "key", "default")
			if err == nil {
				err = c.compared(v[0])
			}
			if err != nil {
				return nil, err
			}
			if x, ok := d.get(v[0]); ok {
				return x, nil
			}
			if absent(v[1]) {
				return nil, nil
			}
			return v[1], nil
		}
	default:
		return nil
	}
	return &callable{"." + name, f}
}
