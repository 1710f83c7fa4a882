package chat

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// stringMethods are those of Python that templates use.
var stringMethods = map[string]function{
	"startswith": affix(strings.HasPrefix),
	"endswith":   affix(strings.HasSuffix),
	"strip":      stripper(strings.TrimFunc),
	"lstrip":     stripper(strings.TrimLeftFunc),
	"rstrip":     stripper(strings.TrimRightFunc),
	"upper":      onText(upper),
	"lower":      onText(lower),
	"title":      onText(pyTitle),
	"capitalize": onText(capitalize),
	"split":      takes("sep maxsplit", split),
	"rsplit":     takes("sep maxsplit", rsplit),
	"splitlines": takes("", func(c *context, v any, _ []any) any { return c.stringList(splitLines(v.(string))) }),
	"replace":    takes("old! new! count", replace),
	"join": takes("iterable!", func(c *context, v any, p []any) any {
		items := c.iterate(p[0])
		for _, x := range items {
			if _, ok := textOf(x); !ok {
				panic(c.errorf(".join needs strings, not a %s", typeName(x)))
			}
		}
		return c.join(items, v.(string))
	}),
	"find":         finder(strings.Index, false),
	"rfind":        finder(strings.LastIndex, false),
	"index":        finder(strings.Index, true),
	"removeprefix": affixCut(strings.TrimPrefix),
	"removesuffix": affixCut(strings.TrimSuffix),
	"count": takes("sub!", func(c *context, v any, p []any) any {
		return int64(strings.Count(v.(string), c.strArg(p[0], "")))
	}),
	"isdigit": every(unicode.IsDigit),
	"isalpha": every(unicode.IsLetter),
	"isalnum": every(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
	"isspace": every(isSpace),
	"islower": textTest(isLower),
	"isupper": textTest(isUpper),
	"format":  pyFormat,
}

// onText returns a function that applies f to the text of its value.
func onText(f func(string) string) function {
	return takes("", func(c *context, v any, _ []any) any { return c.text(f(c.str(v))) })
}

// textTest returns a function that tests the text of its value.
func textTest(f func(string) bool) function {
	return takes("", func(c *context, v any, _ []any) any {
		s := c.str(v)
		c.read(s)
		return f(s)
	})
}

func every(in func(rune) bool) function {
	return textTest(func(s string) bool {
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !in(r) }) < 0
	})
}

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

func isLower(s string) bool { return s == lower(s) && s != upper(s) }
func isUpper(s string) bool { return s == upper(s) && s != lower(s) }

// affix is startswith and endswith. The argument is a string or a tuple of strings.
func affix(has func(s, x string) bool) function {
	return func(c *context, v any, a *args) any {
		p := c.bind(a, 1, []string{"prefix"})
		options := []any{p[0]}
		if l, ok := p[0].(*list); ok && l.tuple {
			options = l.items
		}
		for _, o := range options {
			x, ok := textOf(o)
			if !ok {
				panic(c.errorf("%s needs a string or a tuple of strings, not a %s", a.name, typeName(o)))
			}
			c.compared(x)
			if has(v.(string), x) {
				return true
			}
		}
		return false
	}
}

func affixCut(cut func(s, x string) string) function {
	return takes("affix!", func(c *context, v any, p []any) any { return cut(v.(string), c.strArg(p[0], "")) })
}

// stripper is the methods strip, lstrip and rstrip, and the filter trim.
func stripper(trim func(string, func(rune) bool) string) function {
	return takes("chars", func(c *context, v any, p []any) any {
		drop := isSpace
		if !absent(p[0]) && p[0] != nil {
			chars := map[rune]bool{}
			for _, r := range c.strArg(p[0], "") {
				chars[r] = true
			}
			drop = func(r rune) bool { return chars[r] }
		}
		return c.text(trim(c.str(v), drop))
	})
}

func finder(find func(s, sub string) int, must bool) function {
	return takes("sub!", func(c *context, v any, p []any) any {
		s := v.(string)
		i := find(s, c.strArg(p[0], ""))
		switch {
		case i >= 0:
			return int64(utf8.RuneCountInString(s[:i]))
		case must:
			panic(c.errorf("substring not found"))
		}
		return int64(-1)
	})
}

// splitArgs reads the arguments of split and rsplit; sep is "" for white space.
func (c *context) splitArgs(p []any) (sep string, limit int) {
	if !absent(p[0]) && p[0] != nil {
		if sep = c.strArg(p[0], ""); sep == "" {
			panic(c.errorf("empty separator"))
		}
	}
	return sep, c.intArg(p[1], -1)
}

func split(c *context, v any, p []any) any {
	sep, limit := c.splitArgs(p)
	s := v.(string)
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
		if i < 0 || limit >= 0 && len(out) == limit {
			out = append(out, rest)
			break
		}
		out = append(out, rest[:i])
		rest = strings.TrimLeftFunc(rest[i:], isSpace)
	}
	return c.stringList(out)
}

func rsplit(c *context, v any, p []any) any {
	sep, limit := c.splitArgs(p)
	if sep == "" {
		panic(c.errorf(".rsplit without a separator is not supported"))
	}
	parts := strings.Split(v.(string), sep)
	if limit >= 0 && len(parts) > limit+1 {
		head := len(parts) - limit
		parts = append([]string{strings.Join(parts[:head], sep)}, parts[head:]...)
	}
	return c.stringList(parts)
}

func (c *context) stringList(parts []string) any {
	c.holds(len(parts))
	c.spend(len(parts))
	out := listOf()
	for _, p := range parts {
		out.items = append(out.items, p)
	}
	return out
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
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		s = s[i+n:]
	}
	return out
}

// replace is the method and the filter of that name.
func replace(c *context, v any, p []any) any {
	s, from, to := c.str(v), c.str(p[0]), c.str(p[1])
	n := -1
	if p[2] != nil {
		n = c.intArg(p[2], -1)
	}
	found := strings.Count(s, from)
	if n >= 0 {
		found = min(found, n)
	}
	c.fits(len(s) + found*max(0, len(to)-len(from)))
	return c.text(strings.Replace(s, from, to, n))
}

// pyFormat is str.format with {}, {0} and {name}, without format specifications.
func pyFormat(c *context, self any, a *args) any {
	s := self.(string)
	var sb strings.Builder
	next := 0
	for i := 0; i < len(s); i++ {
		if strings.HasPrefix(s[i:], "{{") || strings.HasPrefix(s[i:], "}}") {
			sb.WriteByte(s[i])
			i++
			continue
		}
		if s[i] == '}' {
			panic(c.errorf(".format: a single '}'"))
		}
		if s[i] != '{' {
			sb.WriteByte(s[i])
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			panic(c.errorf(".format: a single '{'"))
		}
		field := s[i+1 : i+end]
		i += end
		n := -1 // the position of the argument
		switch {
		case strings.ContainsAny(field, ":!.[{"):
			panic(c.errorf(".format: the field {%s} is not supported", field))
		case field == "":
			n = next
			next++
		case strings.Trim(field, "0123456789") == "" && len(field) < 6:
			n = 0
			for _, d := range field {
				n = 10*n + int(d-'0')
			}
		}
		v, ok := a.kw.get(field)
		if n >= 0 {
			if ok = n < len(a.pos); ok {
				v = a.pos[n]
			}
		}
		if !ok {
			panic(c.errorf(".format has no argument for {%s}", field))
		}
		sb.WriteString(c.str(v))
		c.fits(sb.Len())
	}
	return c.text(sb.String())
}

// pyTitle is str.title: a letter after a non-letter is upper case, others lower.
func pyTitle(s string) string {
	var sb strings.Builder
	inWord := false
	for _, r := range s {
		switch isLetter := unicode.IsLetter(r); {
		case !isLetter:
			sb.WriteRune(r)
			inWord = false
		case inWord:
			sb.WriteString(lower(string(r)))
		default:
			sb.WriteRune(unicode.ToTitle(r))
			inWord = true
		}
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

var listMethods = map[string]function{
	"index": takes("value!", func(c *context, v any, p []any) any {
		for i, x := range v.(*list).items {
			if c.equal(x, p[0], 0) {
				return int64(i)
			}
		}
		panic(c.errorf("the value is not in the list"))
	}),
	"count": takes("value!", func(c *context, v any, p []any) any {
		n := int64(0)
		for _, x := range v.(*list).items {
			if c.equal(x, p[0], 0) {
				n++
			}
		}
		return n
	}),
}
