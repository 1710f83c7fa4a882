package action

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// PythonCall returns the code of a reply without its fence. ok reports whether it
// is a single call of some function. This is the part of P-CODE that needs no list
// of functions.
func PythonCall(text string) (code string, ok bool) {
	code = uncode(text)
	_, ok = readPython(code)
	return code, ok
}

// ParsePython is P-CODE: it returns the command for the Python call in a reply. ok
// is false for an invalid action: anything but one call of a listed function with
// string and number literals. AgentGym evaluates the code; this parser does not.
func (fs Functions) ParsePython(text string) (action string, ok bool) {
	c, ok := readPython(uncode(text))
	if !ok {
		return "", false
	}
	f, ok := fs.find(c.name)
	if !ok {
		return "", false
	}
	params := slices.Clone(f.Params)
	if f.CodeParam != "" {
		params[0] = f.CodeParam
	}
	if len(c.args) > len(params) {
		return "", false
	}
	values := make([]*pyValue, len(params))
	for i, a := range c.args {
		i := i
		if a.name != "" {
			if i = slices.Index(params, a.name); i < 0 {
				return "", false
			}
		}
		if values[i] != nil {
			return "", false
		}
		values[i] = &a.value
	}
	// An optional argument that is an empty string or 0 counts as omitted.
	if last := len(values) - 1; f.Optional && (values[last] == nil || values[last].falsy) {
		values = values[:last]
	}
	args := make([]string, len(values))
	for i, v := range values {
		if v == nil {
			return "", false
		}
		args[i] = v.text
	}
	return f.render(args)
}

// The parser of the subset of Python that P-CODE accepts: comment lines, one call
// with literal arguments, and comments. It rejects code that Python rejects, such
// as an indented call after a comment.

// pyCall is NAME(ARGUMENT, ...).
type pyCall struct {
	name string
	args []pyArg // those with a name come last
}

// pyArg is an argument; name is "" for a positional one.
type pyArg struct {
	name  string
	value pyValue
}

// pyValue is a literal as Python formats it in a string.
type pyValue struct {
	text  string
	falsy bool // the empty string, or zero
}

// readPython parses code that consists of one call.
func readPython(code string) (pyCall, bool) {
	if strings.ContainsRune(code, 0) {
		return pyCall{}, false
	}
	code = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(code)
	r := &pyReader{rest: strings.TrimLeft(code, " \t")}
	for !r.done() { // blank and comment lines
		line, rest, _ := strings.Cut(r.rest, "\n")
		if t := strings.TrimLeft(line, " \t\f"); t != "" && t[0] != '#' {
			break
		}
		r.rest = rest
	}
	var c pyCall
	if c.name = r.identifier(); c.name == "" {
		return c, false
	}
	r.blanks(" \t\f")
	if !r.take("(") || !r.arguments(&c) {
		return c, false
	}
	for line := range strings.SplitSeq(r.rest, "\n") {
		if t := strings.TrimLeft(line, " \t\f"); t != "" && t[0] != '#' {
			return c, false
		}
	}
	return c, true
}

// pyReader reads tokens from the front of rest.
type pyReader struct{ rest string }

func (r *pyReader) done() bool { return r.rest == "" }

func (r *pyReader) take(s string) bool {
	rest, ok := strings.CutPrefix(r.rest, s)
	if ok {
		r.rest = rest
	}
	return ok
}

func (r *pyReader) blanks(set string) { r.rest = strings.TrimLeft(r.rest, set) }

// space skips white space and comments between tokens inside parentheses.
func (r *pyReader) space() {
	for {
		r.blanks(" \t\f\n")
		if !strings.HasPrefix(r.rest, "#") {
			return
		}
		_, r.rest, _ = strings.Cut(r.rest, "\n")
	}
}

// identifier reads an ASCII name, "" if there is none.
func (r *pyReader) identifier() string {
	n := 0
	for n < len(r.rest) {
		ch := r.rest[n]
		if ch == '_' || ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z' || n > 0 && ch >= '0' && ch <= '9' {
			n++
			continue
		}
		break
	}
	name := r.rest[:n]
	r.rest = r.rest[n:]
	return name
}

// arguments reads up to the closing parenthesis, which it consumes.
func (r *pyReader) arguments(c *pyCall) bool {
	for {
		r.space()
		if r.take(")") {
			return true
		}
		var a pyArg
		before := r.rest
		if a.name = r.identifier(); a.name != "" {
			r.space()
			if !r.take("=") || strings.HasPrefix(r.rest, "=") {
				a.name, r.rest = "", before // perhaps the prefix of a string
			}
		}
		r.space()
		var ok bool
		if a.value, ok = r.value(); !ok {
			return false
		}
		if n := len(c.args); a.name == "" && n > 0 && c.args[n-1].name != "" {
			return false // a positional argument after a named one
		}
		c.args = append(c.args, a)
		r.space()
		if r.take(")") {
			return true
		}
		if !r.take(",") {
			return false
		}
	}
}

// value reads a number, or one or more adjacent strings.
func (r *pyReader) value() (pyValue, bool) {
	if r.done() {
		return pyValue{}, false
	}
	if ch := r.rest[0]; ch == '-' || ch == '.' || ch >= '0' && ch <= '9' {
		n := 1
		for n < len(r.rest) && (strings.IndexByte("0123456789.eE", r.rest[n]) >= 0 ||
			strings.IndexByte("+-", r.rest[n]) >= 0 && strings.IndexByte("eE", r.rest[n-1]) >= 0) {
			n++
		}
		text, ok := pythonNumber(r.rest[:n])
		r.rest = r.rest[n:]
		return pyValue{text, strings.Trim(text, "-0.") == ""}, ok
	}
	var b strings.Builder
	for found := false; ; found = true {
		s, there, ok := r.str()
		if !ok || !there {
			text := b.String()
			return pyValue{text, text == ""}, ok && found
		}
		b.WriteString(s)
		r.space()
	}
}

// str reads a string literal. there is false if no literal begins here, ok is
// false if one begins and is malformed.
func (r *pyReader) str() (s string, there, ok bool) {
	rest, raw := r.rest, false
	if rest != "" && strings.IndexByte("rRuU", rest[0]) >= 0 {
		raw = rest[0] == 'r' || rest[0] == 'R'
		rest = rest[1:]
	}
	if rest == "" || rest[0] != '"' && rest[0] != '\'' {
		return "", false, true
	}
	quote := rest[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(rest, triple) {
		quote = triple
	}
	rest = rest[len(quote):]
	var b strings.Builder
	for {
		switch {
		case rest == "", len(quote) == 1 && rest[0] == '\n':
			return "", true, false
		case strings.HasPrefix(rest, quote):
			r.rest = rest[len(quote):]
			return b.String(), true, true
		case rest[0] != '\\':
			b.WriteByte(rest[0])
			rest = rest[1:]
		case len(rest) == 1:
			return "", true, false
		case raw:
			b.WriteString(rest[:2])
			rest = rest[2:]
		default:
			var n int
			if s, n = pyEscape(rest); n == 0 {
				return "", true, false
			}
			b.WriteString(s)
			rest = rest[n:]
		}
	}
}

// pyEscape reads an escape sequence. It returns the text that it stands for and
// its length, 0 if Python rejects it. An unknown sequence stands for itself.
func pyEscape(s string) (string, int) {
	hex := func(digits int) (string, int) {
		if len(s) < 2+digits {
			return "", 0
		}
		n, err := strconv.ParseUint(s[2:2+digits], 16, 32)
		if err != nil || n > utf8.MaxRune {
			return "", 0
		}
		return string(rune(n)), 2 + digits
	}
	switch ch := s[1]; ch {
	case '\n':
		return "", 2
	case '\\', '\'', '"':
		return s[1:2], 2
	case 'x':
		return hex(2)
	case 'u':
		return hex(4)
	case 'U':
		return hex(8)
	case 'N':
		return "", 0 // character names are not supported
	case '0', '1', '2', '3', '4', '5', '6', '7':
		n := 2
		for n < len(s) && n < 4 && s[n] >= '0' && s[n] <= '7' {
			n++
		}
		v, _ := strconv.ParseUint(s[1:n], 8, 32) // three octal digits are a number
		return string(rune(v)), n
	default:
		if i := strings.IndexByte("abfnrtv", ch); i >= 0 {
			return "\a\b\f\n\r\t\v"[i : i+1], 2
		}
		return s[:2], 2
	}
}
