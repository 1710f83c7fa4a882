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

// lexer cuts a template into tokens with trim_blocks and lstrip_blocks set.
type lexer struct {
	src       string
	pos       int
	line      int
	out       []token
	lineStart bool // what came before pos ended a line
}

func lex(src string) ([]token, error) {
	if len(src) > maxSource {
		return nil, &Error{1, fmt.Sprintf("the template is longer than %d bytes", maxSource)}
	}
	if !utf8.ValidString(src) {
		return nil, &Error{1, "the template is not valid UTF-8"}
	}
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	src = strings.TrimSuffix(src, "\n") // one, as Jinja does
	l := &lexer{src: src, line: 1, lineStart: true}
	for l.pos < len(l.src) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	l.emit(tokEOF, "")
	return l.out, nil
}

func (l *lexer) emit(k kind, text string) { l.out = append(l.out, token{k, text, l.line}) }

func (l *lexer) fail(format string, args ...any) error {
	return &Error{l.line, fmt.Sprintf(format, args...)}
}

// take advances by n bytes and returns them.
func (l *lexer) take(n int) string {
	s := l.src[l.pos : l.pos+n]
	l.pos += n
	l.line += strings.Count(s, "\n")
	return s
}

// next reads text up to the next tag, and the tag.
func (l *lexer) next() error {
	rest := l.src[l.pos:]
	open := opening(rest)
	if open < 0 {
		l.emit(tokText, rest)
		l.take(len(rest))
		return nil
	}
	kind := rest[open+1]
	sign := byte(0)
	if s := rest[open+2:]; s != "" && (s[0] == '-' || s[0] == '+') {
		sign = s[0]
	}
	l.text(rest[:open], sign, kind != '{')
	l.take(open + 2)
	if sign != 0 {
		l.take(1)
	}
	l.lineStart = false
	switch kind {
	case '#':
		return l.comment()
	case '{':
		l.emit(tokVarOpen, "")
		return l.expression("}}", tokVarClose)
	}
	if n := rawTag(l.src[l.pos:], "raw"); n > 0 {
		return l.raw(n)
	}
	l.emit(tokTagOpen, "")
	return l.expression("%}", tokTagClose)
}

// opening returns where the next {{, {% or {# is, -1 if there is none.
func opening(s string) int {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '{')
		if i < 0 || from+i+1 >= len(s) {
			return -1
		}
		if c := s[from+i+1]; c == '{' || c == '%' || c == '#' {
			return from + i
		}
		from += i + 1
	}
}

// text emits the text before a tag, stripped as the tag's sign says. block
// tells tags and comments, which lstrip_blocks is about, from expressions.
func (l *lexer) text(s string, sign byte, block bool) {
	switch {
	case sign == '-':
		s = strings.TrimRightFunc(s, isSpace)
	case sign != '+' && block:
		line := strings.LastIndexByte(s, '\n') + 1
		if (line > 0 || l.lineStart) && strings.TrimFunc(s[line:], isSpace) == "" {
			s = s[:line]
		}
	}
	if s != "" {
		l.emit(tokText, s)
	}
}

// afterTag strips what follows a tag's end: all white space after a '-', one
// newline (trim_blocks) after a tag or comment without a sign.
func (l *lexer) afterTag(sign byte, block bool) {
	rest := l.src[l.pos:]
	n := 0
	switch {
	case sign == '-':
		n = len(rest) - len(strings.TrimLeftFunc(rest, isSpace))
	case sign != '+' && block && strings.HasPrefix(rest, "\n"):
		n = 1
	}
	l.lineStart = strings.HasSuffix(l.take(n), "\n")
}

func (l *lexer) comment() error {
	end := strings.Index(l.src[l.pos:], "#}")
	if end < 0 {
		return l.fail("a comment is not closed with '#}'")
	}
	var sign byte
	if end > 0 {
		sign = l.src[l.pos+end-1]
	}
	l.take(end + 2)
	l.afterTag(sign, true)
	return nil
}

// rawTag measures `raw %}` after a tag's start; 0 if another tag is there.
func rawTag(s, name string) int {
	body := strings.TrimLeftFunc(s, isSpace)
	body, ok := strings.CutPrefix(body, name)
	if !ok {
		return 0
	}
	body = strings.TrimLeftFunc(body, isSpace)
	body = strings.TrimPrefix(body, "-")
	if !strings.HasPrefix(body, "%}") {
		return 0
	}
	return len(s) - len(body) + 2
}

// raw reads the text of {% raw %}…{% endraw %}; n is what remains of the tag.
func (l *lexer) raw(n int) error {
	line := l.line
	if tag := l.take(n); strings.HasSuffix(tag, "-%}") {
		l.afterTag('-', true)
	}
	rest := l.src[l.pos:]
	for from := 0; ; {
		i := strings.Index(rest[from:], "{%")
		if i < 0 {
			return &Error{line, "a raw block is not closed with endraw"}
		}
		start := from + i
		from = start + 2
		var sign byte
		tail := rest[from:]
		if tail != "" && (tail[0] == '-' || tail[0] == '+') {
			sign, tail = tail[0], tail[1:]
		}
		body := strings.TrimLeftFunc(tail, isSpace)
		body, ok := strings.CutPrefix(body, "endraw")
		if !ok {
			continue
		}
		body = strings.TrimLeftFunc(body, isSpace)
		var endSign byte
		if body != "" && (body[0] == '-' || body[0] == '+') {
			endSign, body = body[0], body[1:]
		}
		if !strings.HasPrefix(body, "%}") {
			continue
		}
		l.text(rest[:start], sign, true)
		l.take(len(rest) - len(body) + 2)
		l.afterTag(endSign, true)
		return nil
	}
}

// operators, longest first.
var operators = []string{"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",", ".", ":", "|"}

// expression reads tokens up to end, which does not count inside brackets.
func (l *lexer) expression(end string, closing kind) error {
	line := l.line
	var brackets []byte
	for {
		rest := l.src[l.pos:]
		trimmed := strings.TrimLeftFunc(rest, isSpace)
		l.take(len(rest) - len(trimmed))
		rest = trimmed
		if rest == "" {
			return &Error{line, fmt.Sprintf("a tag is not closed with '%s'", end)}
		}
		if len(brackets) == 0 {
			var sign byte
			tail := rest
			if rest[0] == '-' || rest[0] == '+' && end == "%}" {
				sign, tail = rest[0], rest[1:]
			}
			if strings.HasPrefix(tail, end) {
				l.emit(closing, "")
				l.take(len(rest) - len(tail) + 2)
				l.afterTag(sign, end == "%}")
				return nil
			}
		}
		op, err := l.operand(rest)
		if err != nil {
			return err
		}
		switch op {
		case "(", "[", "{":
			brackets = append(brackets, op[0])
		case ")", "]", "}":
			pairs := map[string]byte{")": '(', "]": '[', "}": '{'}
			if len(brackets) == 0 || brackets[len(brackets)-1] != pairs[op] {
				return l.fail("unexpected '%s'", op)
			}
			brackets = brackets[:len(brackets)-1]
		}
	}
}

// operand reads one token and returns it if it is an operator.
func (l *lexer) operand(rest string) (op string, err error) {
	c := rest[0]
	r, _ := utf8.DecodeRuneInString(rest)
	switch {
	case c == '\'' || c == '"':
		return "", l.str(rest)
	case c >= '0' && c <= '9':
		return "", l.number(rest)
	case c == '_' || unicode.IsLetter(r):
		n := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if n < 0 {
			n = len(rest)
		}
		l.emit(tokName, rest[:n])
		l.take(n)
		return "", nil
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			l.emit(tokOp, op)
			l.take(len(op))
			return op, nil
		}
	}
	return "", l.fail("unexpected character %q", r)
}

var (
	floatLit = regexp.MustCompile(`^[0-9]+(_[0-9]+)*(\.[0-9]+(_[0-9]+)*([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)`)
	intLit   = regexp.MustCompile(`^(0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|0+|[1-9](_?[0-9])*)`)
)

func (l *lexer) number(rest string) error {
	// In a.0.1 there are two indices, not a fraction.
	index := len(l.out) > 0 && l.out[len(l.out)-1].kind == tokOp && l.out[len(l.out)-1].text == "."
	if text := floatLit.FindString(rest); text != "" && !index {
		l.emit(tokFloat, strings.ReplaceAll(text, "_", ""))
		l.take(len(text))
		return nil
	}
	text := intLit.FindString(rest)
	plain := strings.ReplaceAll(text, "_", "")
	if strings.Trim(plain, "0") == "" {
		plain = "0"
	}
	if _, err := strconv.ParseInt(plain, 0, 64); err != nil {
		return l.fail("bad number %q", text)
	}
	l.emit(tokInt, plain)
	l.take(len(text))
	return nil
}

func (l *lexer) str(rest string) error {
	quote := rest[0]
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case quote:
			s, err := unescape(rest[1:i])
			if err != nil {
				return l.fail("%v", err)
			}
			l.emit(tokString, s)
			l.take(i + 1)
			return nil
		}
	}
	return l.fail("a string is not closed")
}

var simpleEscapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\n': ""}

// unescape decodes a string literal as Python's unicode-escape does; an
// unknown escape stays as it is.
func unescape(s string) (string, error) {
	if !strings.Contains(s, "\\") {
		return s, nil
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
			return "", fmt.Errorf(`the escape \N is not supported`)
		default:
			sb.WriteByte('\\')
			sb.WriteByte(c)
			continue
		}
		if i+1+digits > len(s) {
			return "", fmt.Errorf("an escape in a string is cut short")
		}
		code, err := strconv.ParseUint(s[i+1:i+1+digits], base, 32)
		if err != nil || !utf8.ValidRune(rune(code)) {
			return "", fmt.Errorf("bad escape %q in a string", `\`+s[i:i+1+digits])
		}
		sb.WriteRune(rune(code))
		i += digits
	}
	return sb.String(), nil
}

// isSpace is Python's str.isspace.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1C && r <= 0x1F }
