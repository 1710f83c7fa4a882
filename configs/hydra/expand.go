package hydra

import (
	"path"
	"slices"
	"strings"
)

// variable is what a script says of a variable.
type variable struct {
	text    string
	list    []expanded // of an array
	array   bool
	missing []string
	maybe   []string // variables behind it that a branch may change
}

// expander puts values in place of variables.
type expander struct {
	fixed   map[string]string   // from the command line: no script changes them
	vars    map[string]variable // from the script
	environ func(string) string
	depth   int
	inside  bool     // of a function, which has arguments of its own
	maybe   []string // of the word that is being expanded
}

// maxText bounds what variables can grow to.
const maxText = 1 << 16

// expanded is a word with its variables filled in. What could not be is left
// as written.
type expanded struct {
	text    string
	missing []string
	maybe   []string
}

// watch collects the variables that a branch may change, until the function
// that it returns is called.
func (x *expander) watch() func() []string {
	before := x.maybe
	x.maybe = nil
	return func() []string {
		seen := x.maybe
		x.maybe = join(before, seen)
		return seen
	}
}

// join adds names that are not there yet.
func join(names, more []string) []string {
	for _, name := range more {
		if !slices.Contains(names, name) {
			names = append(slices.Clip(names), name)
		}
	}
	return names
}

// fill expands a word. One that is nothing but an array, or an unquoted
// variable, can become several.
func (x *expander) fill(w []piece) []expanded {
	if name, ok := wholeArray(w); ok {
		if v, set := x.vars[name]; set && v.array {
			out := slices.Clone(v.list)
			for i := range out {
				out[i].missing = slices.Concat(out[i].missing, v.missing)
				out[i].maybe = join(out[i].maybe, v.maybe)
			}
			return out
		}
		return []expanded{{text: "${" + name + "[@]}", missing: []string{"$" + name}}}
	}
	if len(w) == 1 && w[0].expand && (w[0].text == "@" || w[0].text == "*") || len(w) == 2 && w[0].quoted && w[0].text == "" && w[1].expand && w[1].text == "@" {
		return nil // no arguments are given
	}
	seen := x.watch()
	var b strings.Builder
	var missing []string
	split := len(w) == 1 && w[0].expand && !w[0].quoted
	for _, p := range w {
		s, m := x.piece(p)
		if b.Len()+len(s) > maxText {
			return []expanded{{text: b.String(), missing: append(missing, "less text"), maybe: seen()}}
		}
		b.WriteString(s)
		missing = append(missing, m...)
	}
	maybe := seen()
	if split && len(missing) == 0 {
		var out []expanded
		for s := range strings.FieldsSeq(b.String()) {
			out = append(out, expanded{text: s, maybe: maybe})
		}
		return out
	}
	return []expanded{{b.String(), missing, maybe}}
}

// one expands a word that stays one, such as the value of a variable.
func (x *expander) one(w []piece) expanded {
	seen := x.watch()
	var b strings.Builder
	var missing []string
	for _, p := range w {
		s, m := x.piece(p)
		missing = append(missing, m...)
		if b.Len()+len(s) > maxText {
			return expanded{b.String(), append(missing, "less text"), seen()}
		}
		b.WriteString(s)
	}
	return expanded{b.String(), missing, seen()}
}

// wholeArray is the NAME of a word "${NAME[@]}".
func wholeArray(w []piece) (string, bool) {
	w = slices.DeleteFunc(slices.Clone(w), func(p piece) bool { return p.text == "" && !p.expand && !p.run })
	if len(w) != 1 || !w[0].expand {
		return "", false
	}
	for _, all := range []string{"[@]", "[*]"} {
		if name, ok := strings.CutSuffix(w[0].text, all); ok && nameLength(name) == len(name) && name != "" {
			return name, true
		}
	}
	return "", false
}

func (x *expander) piece(p piece) (string, []string) {
	switch {
	case p.run:
		return x.command(p)
	case p.expand:
		return x.variable(p)
	}
	return p.text, nil
}

// command is what basename and dirname print; nothing else is run.
func (x *expander) command(p piece) (string, []string) {
	asWritten := "$(" + p.text + ")"
	tokens, err := lex(p.text)
	if err != nil || len(tokens) != 2 || tokens[0].op != "" || tokens[1].op != "" || x.depth > maxDepth {
		return asWritten, []string{asWritten}
	}
	x.depth++
	defer func() { x.depth-- }()
	name, arg := x.one(tokens[0].word), x.one(tokens[1].word)
	if len(arg.missing) > 0 {
		return asWritten, arg.missing
	}
	switch name.text {
	case "basename":
		return path.Base(arg.text), nil
	case "dirname":
		return path.Dir(arg.text), nil
	}
	return asWritten, []string{asWritten}
}

// variable expands ${NAME}, ${NAME:-other} and its kin, ${NAME##*/} and
// ${NAME%/*}. ${section.key} is Hydra's, which the shell has no such thing as:
// without the quotes that a script needs it is taken for what was meant. An
// argument of the script, ${1:-other}, is not given.
func (x *expander) variable(p piece) (string, []string) {
	asWritten := "${" + p.text + "}"
	if strings.Contains(p.text, ".") && isKey(p.text) {
		return asWritten, nil
	}
	n := nameLength(p.text)
	if n == 0 && !x.inside && p.text[:min(1, len(p.text))] != "0" {
		n = len(p.text) - len(strings.TrimLeft(p.text, "0123456789"))
	}
	name, mod := p.text[:n], p.text[n:]
	if x.depth > maxDepth || n == 0 {
		return asWritten, []string{asWritten}
	}
	x.depth++
	defer func() { x.depth-- }()
	v, set := x.lookup(name)
	x.maybe = join(x.maybe, v.maybe)
	switch {
	case mod == "" && !set && isNumber(name):
		return asWritten, []string{asWritten}
	case mod == "":
		if !set {
			return asWritten, []string{"$" + name}
		}
		return v.text, v.missing
	case strings.HasPrefix(mod, ":-"), strings.HasPrefix(mod, ":="):
		if set && v.text != "" {
			return v.text, v.missing
		}
		return x.text(mod[2:], p.quoted)
	case mod[0] == '-', mod[0] == '=':
		if set {
			return v.text, v.missing
		}
		return x.text(mod[1:], p.quoted)
	case set && mod == "##*/":
		return v.text[strings.LastIndexByte(v.text, '/')+1:], v.missing
	case set && mod == "%/*":
		return path.Dir(v.text), v.missing
	}
	return asWritten, []string{asWritten}
}

// text expands the text behind :- of a variable, where ' is a letter if the
// variable stands between double quotes.
func (x *expander) text(s string, quoted bool) (string, []string) {
	var b strings.Builder
	var missing []string
	l := &lexer{src: s, line: 1}
	if quoted && !strings.Contains(s, `"`) {
		l.src += `"`
		w, err := l.double()
		if err != nil {
			return s, []string{s}
		}
		e := x.one(w)
		return e.text, e.missing
	}
	for l.pos < len(l.src) {
		start := l.pos
		w, err := l.word()
		if err != nil {
			return s, []string{s}
		}
		if l.pos == start { // a blank, or an operator
			b.WriteByte(l.src[l.pos])
			l.pos++
			continue
		}
		e := x.one(w)
		b.WriteString(e.text)
		missing = append(missing, e.missing...)
	}
	return b.String(), missing
}

// lookup finds a variable: what the user said, what the script says, what the
// environment has.
func (x *expander) lookup(name string) (variable, bool) {
	if s, ok := x.fixed[name]; ok {
		return variable{text: s}, true
	}
	v, ok := x.vars[name]
	if ok && len(v.missing) == 0 && !v.array {
		return v, true
	}
	if x.environ != nil {
		if s := x.environ(name); s != "" {
			return variable{text: s}, true
		}
	}
	if v.array {
		v.text = ""
		if len(v.list) > 0 {
			v.text = v.list[0].text
		}
	}
	if len(v.missing) > 0 {
		v.missing = []string{"$" + name}
	}
	return v, ok
}
