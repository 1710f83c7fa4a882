package chat

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// stringMethods are the methods of Python's strings that templates use.
var stringMethods = map[string]function{
	"startswith": affix(strings.HasPrefix),
	"endswith":   affix(strings.HasSuffix),
	"strip":      stripper(strings.TrimFunc),
	"lstrip":     stripper(strings.TrimLeftFunc),
	"rstrip":     stripper(strings.TrimRightFunc),
	"upper":      onText(upper),
	"lower":      onText(lower),
	"title": onText(func(s string) string {
		return title(s, func(r rune) bool { return !unicode.IsLetter(r) }, strings.ToTitle)
	}),
	"capitalize": onText(capitalize),
	"split":      takes("sep maxsplit", split),
	"rsplit":     takes("sep maxsplit", rsplit),
	"splitlines": takes("", func(c *context, v any, _ []any) any { return c.stringList(splitLines(c.str(v))) }),
	"replace":    takes("old! new! count", replace),
	"join": takes("iterable!", func(c *context, v any, p []any) any {
		_, escapes := v.(markup)
		return c.join(c.each(c.iterate(p[0]), func(x any) any {
			if _, ok := textOf(x); !ok && !escapes {
				panic(c.errorf(".join needs strings, not a %s", typeName(x)))
			}
			return c.part(v, x)
		}), c.str(v))
	}),
	"find":         finder(strings.Index, false),
	"rfind":        finder(strings.LastIndex, false),
	"index":        finder(strings.Index, true),
	"removeprefix": affixCut(strings.TrimPrefix),
	"removesuffix": affixCut(strings.TrimSuffix),
	"count": takes("sub!", func(c *context, v any, p []any) any {
		return int64(strings.Count(c.str(v), c.strArg(p[0], "")))
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
		c.spendRead(s)
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

// affix returns the method startswith or endswith. The argument is a string or a tuple of strings.
func affix(has func(s, x string) bool) function {
	return takes("prefix!", func(c *context, v any, p []any) any {
		options := []any{p[0]}
		if l, ok := p[0].(*list); ok && l.tuple {
			options = l.items
		}
		for _, o := range options {
			x, ok := textOf(o)
			if !ok {
				panic(c.errorf("an affix is a string or a tuple of strings, not a %s", typeName(o)))
			}
			c.spendCompare(x)
			if has(c.str(v), x) {
				return true
			}
		}
		return false
	})
}

func affixCut(cut func(s, x string) string) function {
	return takes("affix!", func(c *context, v any, p []any) any { return cut(c.str(v), c.strArg(p[0], "")) })
}

// stripper returns the method strip, lstrip or rstrip, or the filter trim.
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
		s := c.str(v)
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

// splitArgs reads the arguments of split and rsplit. sep is "" for white space;
// n is the maximum number of parts, or -1 for no limit.
func (c *context) splitArgs(p []any) (sep string, n int) {
	if !absent(p[0]) && p[0] != nil {
		if sep = c.strArg(p[0], ""); sep == "" {
			panic(c.errorf("empty separator"))
		}
	}
	if n = c.intArg(p[1], -1); n >= 0 {
		n++
	}
	return sep, n
}

var spaces = regexp.MustCompile(space + "+")

func split(c *context, v any, p []any) any {
	sep, n := c.splitArgs(p)
	if sep != "" {
		return c.stringList(strings.SplitN(c.str(v), sep, n))
	}
	return c.stringList(dropEnd(spaces.Split(strings.TrimLeftFunc(c.str(v), isSpace), n)))
}

// dropEnd returns parts without its last element if this element is empty.
func dropEnd(parts []string) []string {
	if last := len(parts) - 1; parts[last] == "" {
		return parts[:last]
	}
	return parts
}

func rsplit(c *context, v any, p []any) any {
	sep, n := c.splitArgs(p)
	if sep == "" {
		panic(c.errorf(".rsplit without a separator is not supported"))
	}
	parts := strings.Split(c.str(v), sep)
	if n > 0 && len(parts) > n {
		head := len(parts) - n + 1
		parts = append([]string{strings.Join(parts[:head], sep)}, parts[head:]...)
	}
	return c.stringList(parts)
}

func (c *context) stringList(parts []string) any {
	c.checkItems(len(parts))
	c.spend(len(parts))
	out := listOf()
	for _, p := range parts {
		out.items = append(out.items, p)
	}
	return out
}

// lineEnds replaces every line end of Python's str.splitlines with "\n".
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n",
	"\x1c", "\n", "\x1d", "\n", "\x1e", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// splitLines implements Python's str.splitlines.
func splitLines(s string) []string {
	return dropEnd(strings.Split(lineEnds.Replace(s), "\n"))
}

// replace implements the method and the filter replace.
func replace(c *context, v any, p []any) any {
	s, from, to := c.str(v), c.str(p[0]), c.part(v, p[1])
	n := -1
	if p[2] != nil {
		n = c.intArg(p[2], -1)
	}
	found := strings.Count(s, from)
	if n >= 0 {
		found = min(found, n)
	}
	c.checkBytes(len(s) + found*max(0, len(to)-len(from)))
	return c.text(strings.Replace(s, from, to, n))
}

var formatField = regexp.MustCompile(`\{\{|\}\}|\{[^}]*\}|[{}]`)

// pyFormat implements str.format with {}, {0} and {name}, without format specifications.
func pyFormat(c *context, self any, a *args) any {
	next, size := 0, 0
	return c.text(formatField.ReplaceAllStringFunc(c.str(self), func(s string) string {
		if s == "{{" || s == "}}" {
			return s[:1]
		}
		if len(s) == 1 {
			panic(c.errorf(".format: a single '%s'", s))
		}
		field := s[1 : len(s)-1]
		if strings.ContainsAny(field, ":!.[{") {
			panic(c.errorf(".format: the field {%s} is not supported", field))
		}
		if field == "" {
			field = strconv.Itoa(next)
			next++
		}
		v, ok := a.kw.get(field)
		if n, err := strconv.ParseUint(field, 10, 16); err == nil && int(n) < len(a.pos) {
			v, ok = a.pos[n], true
		}
		if !ok {
			panic(c.errorf(".format has no argument for {%s}", field))
		}
		text := c.part(self, v)
		size += len(text)
		c.checkBytes(size)
		return text
	}))
}

// title converts the initial rune and each rune after a separator with the
// function in the argument first. It converts all other runes to lower case.
func title(s string, separates func(rune) bool, first func(string) string) string {
	var sb strings.Builder
	before := ' '
	for _, r := range s {
		if separates(before) {
			sb.WriteString(first(string(r)))
		} else {
			sb.WriteString(lower(string(r)))
		}
		before = r
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
