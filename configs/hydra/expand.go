package hydra

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// variable is the value that a script gives a variable.
type variable struct {
	text    string
	list    []expanded // elements of an array
	array   bool
	missing []string
	maybe   []string // variables in the value whose assignment a branch may skip
}

// expander replaces variables by their values.
type expander struct {
	script  *script
	fixed   map[string]string   // from the command line; a script does not change them
	vars    map[string]variable // from the script
	environ func(string) string
	inside  int      // depth of enclosing functions, where $1 is not the script's argument
	missing []string // variables without a value in the current word
	maybe   []string
}

// maxText bounds the length of a value in bytes.
const maxText = 1 << 16

// expanded is a word with its variables replaced. A variable without a value
// stays as written and is listed in missing.
type expanded struct {
	text    string
	missing []string
	maybe   []string
}

// join returns the union of two lists, in their order.
func join(names, more []string) []string {
	for _, name := range more {
		if !slices.Contains(names, name) {
			names = append(slices.Clip(names), name)
		}
	}
	return names
}

// fill expands a word: an array or an unquoted variable may become several words.
func (x *expander) fill(w *syntax.Word) []expanded {
	parts, quoted := w.Parts, false
	if len(parts) == 1 {
		if q, ok := parts[0].(*syntax.DblQuoted); ok {
			parts, quoted = q.Parts, true
		}
	}
	var alone *syntax.ParamExp
	if len(parts) == 1 {
		alone, _ = parts[0].(*syntax.ParamExp)
	}
	if alone == nil {
		return []expanded{x.one(w)}
	}
	name := alone.Param.Value
	if all := indexOf(alone); all == "@" || all == "*" {
		v, set := x.vars[name]
		if !set || !v.array {
			return []expanded{{text: "${" + name + "[@]}", missing: []string{"$" + name}}}
		}
		out := slices.Clone(v.list)
		for i := range out {
			out[i].missing = slices.Concat(out[i].missing, v.missing)
			out[i].maybe = join(out[i].maybe, v.maybe)
		}
		return out
	}
	if name == "@" || name == "*" && !quoted {
		return nil // $@ and $*: the script is imported without arguments
	}
	e := x.one(w)
	if quoted || len(e.missing) > 0 {
		return []expanded{e}
	}
	var out []expanded
	for s := range strings.FieldsSeq(e.text) {
		out = append(out, expanded{text: s, maybe: e.maybe})
	}
	return out
}

// indexOf returns the index of ${NAME[index]} if it is a plain word, else "".
func indexOf(p *syntax.ParamExp) string {
	if w, ok := p.Index.(*syntax.Word); ok && p.Exp == nil {
		return w.Lit()
	}
	return ""
}

// The method one expands a word without splitting it, such as the value of a variable.
func (x *expander) one(w *syntax.Word) expanded {
	missing, maybe := x.missing, x.maybe
	x.missing, x.maybe = nil, nil
	e := expanded{text: x.word(w, false)}
	e.missing, e.maybe = x.missing, x.maybe
	x.missing, x.maybe = missing, join(maybe, e.maybe)
	return e
}

// word returns the text of a word and adds the names of its variables to x.missing and x.maybe.
func (x *expander) word(w *syntax.Word, quoted bool) string {
	if w == nil {
		return ""
	}
	return x.parts(w.Parts, quoted)
}

func (x *expander) parts(parts []syntax.WordPart, quoted bool) string {
	special := ""
	if quoted {
		special = "\"\\$`"
	}
	var b strings.Builder
	for _, part := range parts {
		if b.Len() > maxText {
			x.missing = append(x.missing, "a text of more than 64 KiB")
			break
		}
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(x.literal(unescape(p.Value, special)))
		case *syntax.SglQuoted:
			text := p.Value
			if quoted { // in "${NAME:-'x'}" the quotes are part of the text
				text = "'" + text + "'"
			}
			b.WriteString(x.literal(text))
		case *syntax.DblQuoted:
			b.WriteString(x.parts(p.Parts, true))
		case *syntax.ParamExp:
			b.WriteString(x.variable(p, quoted))
		case *syntax.CmdSubst:
			b.WriteString(x.command(p))
		default:
			b.WriteString(x.unknown(x.script.text(p)))
		}
	}
	return b.String()
}

func (x *expander) literal(s string) string {
	for _, form := range unknownForm.FindAllString(s, -1) {
		x.unknown(restore(form))
	}
	return restore(s)
}

// unknown adds the given text to x.missing and returns the text unchanged.
func (x *expander) unknown(text string) string {
	x.missing = append(x.missing, text)
	return text
}

// command computes the output of basename and dirname without running a command.
func (x *expander) command(p *syntax.CmdSubst) string {
	asWritten := x.script.text(p)
	if p.Backquotes {
		asWritten = "$(" + asWritten[1:len(asWritten)-1] + ")"
	}
	if len(p.Stmts) != 1 || len(p.Stmts[0].Redirs) > 0 {
		return x.unknown(asWritten)
	}
	call, ok := p.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) > 0 || len(call.Args) != 2 {
		return x.unknown(asWritten)
	}
	name, arg := x.one(call.Args[0]), x.one(call.Args[1])
	switch {
	case len(arg.missing) > 0:
		x.missing = append(x.missing, arg.missing...)
		return asWritten
	case name.text == "basename":
		return path.Base(arg.text)
	case name.text == "dirname":
		return path.Dir(arg.text)
	}
	return x.unknown(asWritten)
}

// variable expands ${NAME}, ${NAME:-other} and the like, ${NAME##*/} and
// ${NAME%/*}. Arguments of the script, as in ${1:-other}, have no value.
func (x *expander) variable(p *syntax.ParamExp, quoted bool) string {
	name := p.Param.Value
	asWritten := x.script.text(p)
	if p.Short {
		asWritten = "${" + name + "}"
	}
	argument := isNumber(name) && name != "0" && x.inside == 0
	simple := !p.Excl && !p.Length && !p.Width && p.Index == nil && p.Slice == nil && p.Repl == nil && p.Names == 0
	if !simple || !argument && !syntax.ValidName(name) {
		return x.unknown(asWritten)
	}
	v, set := x.lookup(name)
	x.maybe = join(x.maybe, v.maybe)
	var op syntax.ParExpOperator
	if p.Exp != nil {
		op = p.Exp.Op
	}
	switch {
	case op == 0 && !set && argument:
		return x.unknown(asWritten)
	case op == 0 && !set:
		x.unknown("$" + name)
		return asWritten
	case (op == syntax.DefaultUnsetOrNull || op == syntax.AssignUnsetOrNull) && v.text == "",
		(op == syntax.DefaultUnset || op == syntax.AssignUnset) && !set:
		return x.word(p.Exp.Word, quoted)
	case op == 0, op == syntax.DefaultUnsetOrNull, op == syntax.AssignUnsetOrNull, op == syntax.DefaultUnset, op == syntax.AssignUnset:
	case set && op == syntax.RemLargePrefix && p.Exp.Word.Lit() == "*/":
		v.text = v.text[strings.LastIndexByte(v.text, '/')+1:]
	case set && op == syntax.RemSmallSuffix && p.Exp.Word.Lit() == "/*":
		v.text = path.Dir(v.text)
	default:
		return x.unknown(asWritten)
	}
	x.missing = append(x.missing, v.missing...)
	return v.text
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// lookup returns the value that the user gave a variable, else the value from the
// script, else from the environment.
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
