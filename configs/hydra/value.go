package hydra

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// maxDepth bounds nested lists and tables.
const maxDepth = 32

// Numbers of Hydra's grammar. Underscores may separate digits, and unlike in YAML
// a number with an exponent needs no decimal point.
var (
	integer  = regexp.MustCompile(`^[+-]?[0-9]+(_?[0-9]+)*$`)
	floating = regexp.MustCompile(`^[+-]?([0-9](_?[0-9])*(\.([0-9](_?[0-9])*)?)?|\.[0-9](_?[0-9])*)([eE][+-]?[0-9](_?[0-9])*)?$`)
)

// ParseValue parses a value of Hydra's override grammar. It returns nil for null,
// or a bool, int64, float64, string, []any or map[string]any.
func ParseValue(text string) (any, error) {
	p := &valueParser{text: text}
	p.blanks()
	if p.pos == len(p.text) {
		return "", nil
	}
	v, err := p.value("", 0)
	if err != nil {
		return nil, err
	}
	p.blanks()
	if p.pos < len(p.text) {
		if p.text[p.pos] == ',' {
			return nil, fmt.Errorf("%q is a sweep over several values: import one at a time", clip(text))
		}
		return nil, fmt.Errorf("%q has %q after its value", clip(text), clip(p.text[p.pos:]))
	}
	return v, nil
}

type valueParser struct {
	text string
	pos  int
}

func (p *valueParser) blanks() {
	for p.pos < len(p.text) && (p.text[p.pos] == ' ' || p.text[p.pos] == '\t' || p.text[p.pos] == '\n') {
		p.pos++
	}
}

// value reads one value that ends before one of the bytes in stop.
func (p *valueParser) value(stop string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d nested brackets", maxDepth)
	}
	p.blanks()
	if p.pos == len(p.text) {
		return nil, fmt.Errorf("%q ends before a value", clip(p.text))
	}
	switch p.text[p.pos] {
	case '\'', '"':
		return p.quoted()
	case '[':
		return p.list(depth)
	case '{':
		return p.dict(depth)
	}
	return p.bare(stop)
}

func (p *valueParser) quoted() (any, error) {
	q := p.text[p.pos]
	var b strings.Builder
	for i := p.pos + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '\\' && i+1 < len(p.text) && (p.text[i+1] == q || p.text[i+1] == '\\'):
			i++
			b.WriteByte(p.text[i])
		case c == q:
			p.pos = i + 1
			return b.String(), nil
		default:
			b.WriteByte(c)
		}
	}
	return nil, fmt.Errorf("%q has no closing %c", clip(p.text), q)
}

func (p *valueParser) list(depth int) (any, error) {
	p.pos++
	out := []any{}
	for {
		p.blanks()
		if p.take(']') {
			return out, nil
		}
		v, err := p.value(",]", depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		p.blanks()
		if !p.take(',') && !p.at(']') {
			return nil, fmt.Errorf("%q has a list without a closing ]", clip(p.text))
		}
	}
}

func (p *valueParser) dict(depth int) (any, error) {
	p.pos++
	out := map[string]any{}
	for {
		p.blanks()
		if p.take('}') {
			return out, nil
		}
		k, err := p.value(":,}", depth+1)
		if err != nil {
			return nil, err
		}
		p.blanks()
		if !p.take(':') {
			return nil, fmt.Errorf("%q has a name without a value: write {name: value}", clip(p.text))
		}
		v, err := p.value(",}", depth+1)
		if err != nil {
			return nil, err
		}
		out[plain(k)] = v
		p.blanks()
		if !p.take(',') && !p.at('}') {
			return nil, fmt.Errorf("%q has a table without a closing }", clip(p.text))
		}
	}
}

func (p *valueParser) at(c byte) bool { return p.pos < len(p.text) && p.text[p.pos] == c }

func (p *valueParser) take(c byte) bool {
	if !p.at(c) {
		return false
	}
	p.pos++
	return true
}

// bare reads an unquoted value. Outside of brackets it ends before a comma, which
// separates the values of a sweep.
func (p *valueParser) bare(stop string) (any, error) {
	if stop == "" {
		stop = ","
	}
	start, inner := p.pos, 0
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		switch {
		case c == '\\' && p.pos+1 < len(p.text):
			p.pos++
		case c == '$' && strings.HasPrefix(p.text[p.pos:], "${"):
			inner++
			p.pos++
		case inner > 0 && c == '}':
			inner--
		case inner == 0 && strings.IndexByte(stop, c) >= 0:
			return word(p.text[start:p.pos]), nil
		}
		p.pos++
	}
	return word(p.text[start:]), nil
}

// word converts unquoted text to its type.
func word(s string) any {
	s = strings.TrimSpace(s)
	switch strings.ToLower(s) {
	case "null":
		return nil
	case "true":
		return true
	case "false":
		return false
	case "inf", "+inf":
		return math.Inf(1)
	case "-inf":
		return math.Inf(-1)
	case "nan":
		return math.NaN()
	}
	digits := strings.ReplaceAll(s, "_", "")
	if integer.MatchString(s) {
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
			return n
		}
	}
	if floating.MatchString(s) {
		if f, err := strconv.ParseFloat(digits, 64); err == nil {
			return f
		}
	}
	return unescape(s, `\()[]{}:=, `) // Hydra requires backslashes before these
}

// unescape removes the backslashes before the characters in special, or all if special is "".
func unescape(s, special string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (special == "" || strings.IndexByte(special, s[i+1]) >= 0) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// plain returns a value as Hydra writes it.
func plain(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = plain(v[i])
		}
		return "[" + strings.Join(parts, ",") + "]"
	case map[string]any:
		return "{…}"
	}
	return fmt.Sprint(v)
}

// clip shortens s for one-line messages.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
