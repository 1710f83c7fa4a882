package chat

import (
	"fmt"
	"regexp"
	"slices"
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
	tokEOF      kind = iota
	tokText          // output verbatim
	tokVarOpen       // {{
	tokVarClose      // }}
	tokTagOpen       // {%
	tokTagClose      // %}
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

type token struct {
	kind kind
	text string // decoded, for strings
	line int
}

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end of the template"
	case tokVarClose:
		return "'}}'"
	case tokTagClose:
		return "'%}'"
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
	lineStart bool // the text before pos ends a line
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
	l.src = strings.TrimSuffix(src, "\n") // only one, as Jinja does
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

// space matches the runes of isSpace.
const space = `[\t-\r\x1c-\x20\x{85}\p{Z}]*`

var (
	opening  = regexp.MustCompile(`\{[{%#][-+]?`)
	rawOpen  = regexp.MustCompile(`^` + space + `raw` + space + `-?%\}`)
	rawClose = regexp.MustCompile(`\{%([-+]?)` + space + `endraw` + space + `([-+]?)%\}`)
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
		l.emit(tokVarOpen, "")
		l.expression("}}", tokVarClose)
		return
	}
	if raw := rawOpen.FindString(l.src[l.pos:]); raw != "" {
		l.raw(raw)
		return
	}
	l.emit(tokTagOpen, "")
	l.expression("%}", tokTagClose)
}

// text emits the text before a tag, stripped as the tag's sign demands. block
// is true for tags and comments, to which lstrip_blocks applies, and false for
// expressions.
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

// afterTag strips the text after a tag: all white space after a '-', one
// newline (trim_blocks) after a tag or comment without a sign.
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

// raw reads the text of {% raw %}…{% endraw %}; open is the remainder of the
// opening tag.
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

// operators, longest first.
var operators = []string{"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",", ".", ":", "|"}

var closingOf = map[string]string{"(": ")", "[": "]", "{": "}"}

// expression reads tokens up to end. Inside brackets end does not count.
func (l *lexer) expression(end string, closing kind) {
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
				l.emit(closing, "")
				l.take(len(sign) + len(end))
				l.afterTag(sign, end == "%}")
				return
			}
		}
		switch op := l.operand(rest); op {
		case "(", "[", "{":
			expected = append(expected, closingOf[op])
		case ")", "]", "}":
			if n := len(expected); n == 0 || expected[n-1] != op {
				panic(l.errorf("unexpected '%s'", op))
			}
			expected = expected[:len(expected)-1]
		}
	}
}

// operand reads one token and returns it if it is an operator.
func (l *lexer) operand(rest string) (op string) {
	c := rest[0]
	r, _ := utf8.DecodeRuneInString(rest)
	switch {
	case c == '\'' || c == '"':
		l.str(rest)
		return ""
	case c >= '0' && c <= '9':
		l.number(rest)
		return ""
	case c == '_' || unicode.IsLetter(r):
		n := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if n < 0 {
			n = len(rest)
		}
		l.emit(tokName, rest[:n])
		l.take(n)
		return ""
	}
	i := slices.IndexFunc(operators, func(op string) bool { return strings.HasPrefix(rest, op) })
	if i < 0 {
		panic(l.errorf("unexpected character %q", r))
	}
	l.emit(tokOp, operators[i])
	return l.take(len(operators[i]))
}

var (
	floatLit = regexp.MustCompile(`^[0-9]+(_[0-9]+)*(\.[0-9]+(_[0-9]+)*([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)`)
	intLit   = regexp.MustCompile(`^(0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|0+|[1-9](_?[0-9])*)`)
)

func (l *lexer) number(rest string) {
	// In a.0.1 there are two indices, not a fraction.
	index := len(l.out) > 0 && l.out[len(l.out)-1].isOp(".")
	if text := floatLit.FindString(rest); text != "" && !index {
		l.emit(tokFloat, strings.ReplaceAll(text, "_", ""))
		l.take(len(text))
		return
	}
	text := intLit.FindString(rest)
	plain := strings.ReplaceAll(text, "_", "")
	if strings.Trim(plain, "0") == "" {
		plain = "0"
	}
	if _, err := strconv.ParseInt(plain, 0, 64); err != nil {
		panic(l.errorf("bad number %q", text))
	}
	l.emit(tokInt, plain)
	l.take(len(text))
}

func (l *lexer) str(rest string) {
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case rest[0]:
			l.emit(tokString, l.unescape(rest[1:i]))
			l.take(i + 1)
			return
		}
	}
	panic(l.errorf("a string is not closed"))
}

var simpleEscapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\n': ""}

// unescape decodes a string literal as Python's unicode-escape does. An
// unknown escape is kept as it is.
func (l *lexer) unescape(s string) string {
	if !strings.Contains(s, "\\") {
		return s
	}
	var sb strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			sb.WriteByte(s[i])
			continue
		}
		i++
		if as, ok := simpleEscapes[s[i]]; ok {
			sb.WriteString(as)
			continue
		}
		digits, base := 0, 16
		switch c := s[i]; {
		case c == 'x':
			digits = 2
		case c == 'u':
			digits = 4
		case c == 'U':
			digits = 8
		case c >= '0' && c <= '7':
			base = 8
			for digits < 3 && i+digits < len(s) && s[i+digits] >= '0' && s[i+digits] <= '7' {
				digits++
			}
			i--
		case c == 'N':
			panic(l.errorf(`the escape \N is not supported`))
		default:
			sb.WriteByte('\\')
			sb.WriteByte(c)
			continue
		}
		if i+1+digits > len(s) {
			panic(l.errorf("an escape in a string is cut short"))
		}
		code, err := strconv.ParseUint(s[i+1:i+1+digits], base, 32)
		if err != nil || !utf8.ValidRune(rune(code)) {
			panic(l.errorf("bad escape %q in a string", `\`+s[i:i+1+digits]))
		}
		sb.WriteRune(rune(code))
		i += digits
	}
	return sb.String()
}

// isSpace is Python's str.isspace.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1C && r <= 0x1F }
