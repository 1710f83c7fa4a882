package action

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// PythonCall returns the code of a reply without its fence. ok reports whether
// the code is a single call of some function. This is the part of P-CODE that needs no list
// of functions.
func PythonCall(text string) (code string, ok bool) {
	code = uncode(text)
	_, ok = readPython(code)
	return code, ok
}

// ParsePython is the protocol's parser P-CODE: it returns the command for the Python call in a reply. ok
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

// The rest of this file parses the subset of Python that P-CODE accepts: comment lines,
// one call with literal arguments, and comments. It rejects code that Python rejects, such
// as an indented call after a comment.

// pyCall is NAME(ARGUMENT, ...).
type pyCall struct {
	name string
	args []pyArg // positional arguments come first
}

// pyArg is an argument. A positional argument has the name "".
type pyArg struct {
	name  string
	value pyValue
}

// pyValue is a literal as Python formats it in a string.
type pyValue struct {
	text  string
	falsy bool // the value is the empty string or zero
}

// The tokens of a call.
var (
	pyName     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)
	pyNumber   = regexp.MustCompile(`^[-.0-9](?:[0-9.]|[eE][+-]?)*`)
	pyQuote    = regexp.MustCompile(`^([rRuU]?)("""|'''|"|')`)
	pySpace    = regexp.MustCompile(`^(?:[ \t\f\n]|#[^\n]*)*`)            // space and comments inside parentheses
	pyComments = regexp.MustCompile(`^(?:[ \t\f]*(?:#[^\n]*)?(?:\n|$))*`) // lines that are empty or a comment
	pyEscape   = regexp.MustCompile(`(?s)\\(?:[0-7]{1,3}|x[[:xdigit:]]{2}|u[[:xdigit:]]{4}|U[[:xdigit:]]{8}|.)`)
	pyClosing  = map[string]*regexp.Regexp{ // maps the opening quote of a string to the rest of the string
		`"`:   regexp.MustCompile(`^((?s:\\.|[^\\\n])*?)"`),
		`'`:   regexp.MustCompile(`^((?s:\\.|[^\\\n])*?)'`),
		`"""`: regexp.MustCompile(`^((?s:\\.|[^\\])*?)"""`),
		`'''`: regexp.MustCompile(`^((?s:\\.|[^\\])*?)'''`),
	}
)

// readPython parses code that consists of one call.
func readPython(code string) (pyCall, bool) {
	if strings.ContainsRune(code, 0) {
		return pyCall{}, false
	}
	code = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(code)
	r := &pyReader{strings.TrimLeft(code, " \t")}
	r.match(pyComments)
	c := pyCall{name: r.match(pyName)}
	r.rest = strings.TrimLeft(r.rest, " \t\f")
	if c.name == "" || !r.take("(") || !r.arguments(&c) {
		return c, false
	}
	r.match(pyComments)
	return c, r.rest == ""
}

// pyReader reads tokens from the front of rest.
type pyReader struct{ rest string }

// match consumes and returns the text that re matches at the front.
func (r *pyReader) match(re *regexp.Regexp) string {
	text := re.FindString(r.rest)
	r.rest = r.rest[len(text):]
	return text
}

func (r *pyReader) take(s string) bool {
	rest, ok := strings.CutPrefix(r.rest, s)
	if ok {
		r.rest = rest
	}
	return ok
}

// arguments reads up to the closing parenthesis, which it consumes.
func (r *pyReader) arguments(c *pyCall) bool {
	for {
		r.match(pySpace)
		if r.take(")") {
			return true
		}
		var a pyArg
		before := r.rest
		if a.name = r.match(pyName); a.name != "" {
			r.match(pySpace)
			if !r.take("=") || strings.HasPrefix(r.rest, "=") {
				a.name, r.rest = "", before // the name may be the prefix of a string, such as r""
			}
		}
		r.match(pySpace)
		var ok bool
		if a.value, ok = r.value(); !ok {
			return false
		}
		if n := len(c.args); a.name == "" && n > 0 && c.args[n-1].name != "" {
			return false // a positional argument after a named one
		}
		c.args = append(c.args, a)
		r.match(pySpace)
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
	if number := r.match(pyNumber); number != "" {
		text, ok := pythonNumber(number)
		return pyValue{text, strings.Trim(text, "-0.") == ""}, ok
	}
	text, found := "", false
	for pyQuote.MatchString(r.rest) {
		s, ok := r.str()
		if !ok {
			return pyValue{}, false
		}
		text, found = text+s, true
		r.match(pySpace)
	}
	return pyValue{text, text == ""}, found
}

// str reads a string literal. ok is false if it is malformed.
func (r *pyReader) str() (s string, ok bool) {
	open := pyQuote.FindStringSubmatch(r.rest)
	r.rest = r.rest[len(open[0]):]
	literal := pyClosing[open[2]].FindStringSubmatch(r.rest)
	if literal == nil {
		return "", false
	}
	r.rest = r.rest[len(literal[0]):]
	if strings.EqualFold(open[1], "r") {
		return literal[1], true
	}
	ok = true
	s = pyEscape.ReplaceAllStringFunc(literal[1], func(escape string) string {
		text, valid := pyUnescape(escape[1:])
		ok = ok && valid
		return text
	})
	return s, ok
}

// pyUnescape returns the text of an escape sequence. name is the sequence without its
// backslash. ok is false if Python rejects the sequence. An unknown sequence is unchanged.
func pyUnescape(name string) (text string, ok bool) {
	base, digits := 16, name[1:]
	switch ch := name[0]; {
	case ch == '\n':
		return "", true
	case strings.IndexByte(`\'"`, ch) >= 0:
		return name, true
	case ch >= '0' && ch <= '7':
		base, digits = 8, name
	case strings.IndexByte("xuU", ch) >= 0:
	case ch == 'N':
		return "", false // character names are not supported
	default:
		if i := strings.IndexByte("abfnrtv", ch); i >= 0 {
			return "\a\b\f\n\r\t\v"[i : i+1], true
		}
		return `\` + name, true
	}
	n, err := strconv.ParseUint(digits, base, 32)
	return string(rune(n)), err == nil && n <= utf8.MaxRune
}
