package chat

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSource bounds a template's length in bytes.
const maxSource = 1 << 18

// kind is the kind of a token.
type kind int

const (
	tokEOF  kind = iota
	tokText      // text that is written verbatim
	tokName
	tokString
	tokInt
	tokFloat
	tokOp // operators, brackets and the delimiters {{ }} {% %}
)

type token struct {
	kind kind
	text string // source text; for a string, the decoded value
	line int
}

func (t token) String() string {
	if t.kind == tokEOF {
		return "the end of the template"
	}
	return fmt.Sprintf("%q", t.text)
}

func (t token) isOp(op string) bool     { return t.kind == tokOp && t.text == op }
func (t token) isName(name string) bool { return t.kind == tokName && t.text == name }

// lexer splits a template into tokens, with trim_blocks and lstrip_blocks set.
type lexer struct {
	src       string
	pos       int
	line      int
	out       []token
	lineStart bool // pos is at the start of a line
}

func lex(src string) []token {
	l := &lexer{line: 1, lineStart: true}
	if len(src) > maxSource {
		panic(l.errorf("the template is longer than %d bytes", maxSource))
	}
	if !utf8.ValidString(src) {
		panic(l.errorf("the template is not valid UTF-8"))
	}
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	l.src = strings.TrimSuffix(src, "\n") // Jinja drops one final newline
	for l.pos < len(l.src) {
		l.next()
	}
	l.emit(tokEOF, "")
	return l.out
}

func (l *lexer) emit(k kind, text string) { l.out = append(l.out, token{k, text, l.line}) }

func (l *lexer) errorf(format string, args ...any) *Error {
	return &Error{l.line, fmt.Sprintf(format, args...)}
}

// take advances by n bytes and returns them.
func (l *lexer) take(n int) string {
	s := l.src[l.pos : l.pos+n]
	l.pos += n
	l.line += strings.Count(s, "\n")
	return s
}

// space matches the runes for which isSpace is true.
const space = `[\t-\r\x1c-\x20\x{85}\p{Z}]`

var (
	opening  = regexp.MustCompile(`\{[{%#][-+]?`)
	rawOpen  = regexp.MustCompile(`^` + space + `*raw` + space + `*-?%\}`)
	rawClose = regexp.MustCompile(`\{%([-+]?)` + space + `*endraw` + space + `*([-+]?)%\}`)
)

// next reads the text before the next tag, and the tag.
func (l *lexer) next() {
	rest := l.src[l.pos:]
	at := opening.FindStringIndex(rest)
	if at == nil {
		l.emit(tokText, rest)
		l.take(len(rest))
		return
	}
	open := rest[at[0]:at[1]]
	l.text(rest[:at[0]], open[2:], open[1] != '{')
	l.take(at[1])
	l.lineStart = false
	switch open[1] {
	case '#':
		l.comment()
		return
	case '{':
		l.emit(tokOp, "{{")
		l.expression("}}")
		return
	}
	if raw := rawOpen.FindString(l.src[l.pos:]); raw != "" {
		l.raw(raw)
		return
	}
	l.emit(tokOp, "{%")
	l.expression("%}")
}

// text emits the text before a tag. The tag's sign, '-' or '+', controls how
// white space is stripped. The argument block is true for tags and comments, to
// which lstrip_blocks applies, and false for expressions.
func (l *lexer) text(s, sign string, block bool) {
	switch {
	case sign == "-":
		s = strings.TrimRightFunc(s, isSpace)
	case sign != "+" && block:
		line := strings.LastIndexByte(s, '\n') + 1
		if (line > 0 || l.lineStart) && strings.TrimFunc(s[line:], isSpace) == "" {
			s = s[:line]
		}
	}
	if s != "" {
		l.emit(tokText, s)
	}
}

// afterTag strips white space after a tag: all of it if the tag ends with '-',
// or one newline (trim_blocks) after a tag or comment without a sign.
func (l *lexer) afterTag(sign string, block bool) {
	rest := l.src[l.pos:]
	n := 0
	switch {
	case sign == "-":
		n = len(rest) - len(strings.TrimLeftFunc(rest, isSpace))
	case sign != "+" && block && strings.HasPrefix(rest, "\n"):
		n = 1
	}
	l.lineStart = strings.HasSuffix(l.take(n), "\n")
}

func (l *lexer) comment() {
	end := strings.Index(l.src[l.pos:], "#}")
	if end < 0 {
		panic(l.errorf("a comment is not closed with '#}'"))
	}
	text := l.take(end + 2)
	l.afterTag(text[max(0, end-1):end], true)
}

// raw reads the text of {% raw %}…{% endraw %}. The argument open
// is the remainder of the opening tag.
func (l *lexer) raw(open string) {
	line := l.line
	l.take(len(open))
	if strings.HasSuffix(open, "-%}") {
		l.afterTag("-", true)
	}
	rest := l.src[l.pos:]
	m := rawClose.FindStringSubmatchIndex(rest)
	if m == nil {
		panic(&Error{line, "a raw block is not closed with endraw"})
	}
	l.text(rest[:m[0]], rest[m[2]:m[3]], true)
	l.take(m[1])
	l.afterTag(rest[m[4]:m[5]], true)
}

var closingOf = map[string]string{"(": ")", "[": "]", "{": "}"}

// expression reads tokens up to the delimiter in the argument end. Inside brackets, the delimiter is part of the expression.
func (l *lexer) expression(end string) {
	line := l.line
	var expected []string // closing brackets, innermost last
	for {
		rest := strings.TrimLeftFunc(l.src[l.pos:], isSpace)
		l.take(len(l.src) - l.pos - len(rest))
		if rest == "" {
			panic(&Error{line, fmt.Sprintf("a tag is not closed with '%s'", end)})
		}
		if len(expected) == 0 {
			sign, tail := "", rest
			if rest[0] == '-' || rest[0] == '+' && end == "%}" {
				sign, tail = rest[:1], rest[1:]
			}
			if strings.HasPrefix(tail, end) {
				l.emit(tokOp, end)
				l.take(len(sign) + len(end))
				l.afterTag(sign, end == "%}")
				return
			}
		}
		t := l.lexeme(rest)
		if t.kind != tokOp {
			continue
		}
		switch t.text {
		case "(", "[", "{":
			expected = append(expected, closingOf[t.text])
		case ")", "]", "}":
			if n := len(expected); n == 0 || expected[n-1] != t.text {
				panic(l.errorf("unexpected '%s'", t.text))
			}
			expected = expected[:len(expected)-1]
		}
	}
}

// lexemes are the tokens of expressions, in the order in which they are tried.
var lexemes = []struct {
	kind    kind
	pattern *regexp.Regexp
}{
	{tokString, regexp.MustCompile(`^(?s:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")`)},
	{tokFloat, regexp.MustCompile(`^[0-9]+(_[0-9]+)*(\.[0-9]+(_[0-9]+)*([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)`)},
	{tokInt, regexp.MustCompile(`^(0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|0+|[1-9](_?[0-9])*)`)},
	{tokName, regexp.MustCompile(`^[_\p{L}][_\p{L}\p{Nd}]*`)},
	{tokOp, regexp.MustCompile(`^(\*\*|//|==|!=|<=|>=|[-+*/%~<>=()\[\]{},.:|])`)},
}

// lexeme reads the token at the start of rest.
func (l *lexer) lexeme(rest string) token {
	afterDot := len(l.out) > 0 && l.out[len(l.out)-1].isOp(".")
	for _, x := range lexemes {
		text := x.pattern.FindString(rest)
		if text == "" || x.kind == tokFloat && afterDot { // a.0.1 has two indices, not the fraction 0.1
			continue
		}
		if x.kind == tokString {
			l.emit(x.kind, l.unescape(text[1:len(text)-1]))
		} else {
			l.emit(x.kind, text)
		}
		l.take(len(text))
		return l.out[len(l.out)-1]
	}
	if rest[0] == '\'' || rest[0] == '"' {
		panic(l.errorf("a string is not closed"))
	}
	r, _ := utf8.DecodeRuneInString(rest)
	panic(l.errorf("unexpected character %q", r))
}

var escapes = regexp.MustCompile(`(?s)\\(?:x.{0,2}|u.{0,4}|U.{0,8}|[0-7]{1,3}|.)`)

// unescape decodes a string literal as Python's unicode-escape does. An
// unknown escape is kept as it is.
func (l *lexer) unescape(s string) string {
	return escapes.ReplaceAllStringFunc(s, func(e string) string {
		switch c := e[1]; {
		case c == '\n':
			return ""
		case c == '\'' || c == '"':
			return e[1:]
		case c == 'N':
			panic(l.errorf(`the escape \N is not supported`))
		case c >= '0' && c <= '7':
			if code, err := strconv.ParseUint(e[1:], 8, 16); err == nil {
				return string(rune(code))
			}
		case !strings.ContainsRune(`abfnrtvxuU\`, rune(c)):
			return e
		}
		r, _, rest, err := strconv.UnquoteChar(e, 0)
		if err != nil || rest != "" {
			panic(l.errorf("bad escape %q in a string", e))
		}
		return string(r)
	})
}

// isSpace reports whether Python's str.isspace is true for r.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1C && r <= 0x1F }
