package hydra

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Command is the command of a script that starts training.
type Command struct {
	Program   string // "verl.trainer.main_ppo", or "" for bare settings
	Overrides []Override
	Flags     []Override // flags of Hydra such as --config-name
	Faults    []string   // words that are not settings
	Others    []string   // other programs that the script starts
}

// ReadScript finds the command that starts training in a script, or reads a file
// of settings, one or several a line. The parameter fixed has the user's variables.
// environ looks up variables that neither the user nor the script sets.
//
// Nothing is executed. Assignments are followed in the order of the file. An assignment inside if,
// case, a loop or a function, or behind && or ||, may be skipped. A variable with only such
// assignments has no known value. A variable that was set before keeps its earlier value, and
// settings that use it list its name in Maybe.
func ReadScript(text string, fixed map[string]string, environ func(string) string) (Command, error) {
	s, err := parseScript(text)
	if err != nil {
		return Command{}, err
	}
	r := &reader{x: expander{script: s, fixed: fixed, vars: map[string]variable{}, environ: environ}}
	syntax.Walk(s.file, r.visit)
	if len(r.found) > 0 {
		return choose(r.found)
	}
	return bare(s, fixed, environ)
}

// bare reads a file that contains only settings.
func bare(s *script, fixed map[string]string, environ func(string) string) (Command, error) {
	x := expander{script: s, fixed: fixed, environ: environ}
	var words []expanded
	for _, stmt := range s.file.Stmts {
		call, ok := stmt.Cmd.(*syntax.CallExpr)
		ok = ok && len(stmt.Redirs) == 0 && !stmt.Semicolon.IsValid() && !stmt.Negated
		if ok {
			for _, a := range call.Assigns {
				ok = ok && a.Array == nil && a.Index == nil
				e := x.one(a.Value)
				e.text = s.src[a.Pos().Offset():a.Name.End().Offset()] + "=" + e.text
				words = append(words, e)
			}
			for _, w := range call.Args {
				e := x.one(w)
				ok = ok && (strings.Contains(e.text, "=") || strings.HasPrefix(e.text, "~"))
				words = append(words, e)
			}
		}
		if !ok {
			return Command{}, fmt.Errorf("line %d: neither a command that trains, such as python3 -m verl.trainer.main_ppo key=value, nor a file of settings", stmt.Pos().Line())
		}
	}
	if len(words) == 0 {
		return Command{}, errors.New("found no command that trains, such as python3 -m verl.trainer.main_ppo key=value, and no settings")
	}
	return settings("", words), nil
}

// settings parses words as overrides and flags.
func settings(program string, words []expanded) Command {
	c := Command{Program: program}
	for i := 0; i < len(words); i++ {
		w := words[i]
		if strings.HasPrefix(w.text, "-") {
			flag, value, found := strings.Cut(w.text, "=")
			missing := w.missing
			if !found && i+1 < len(words) && !strings.Contains(words[i+1].text, "=") {
				i++
				value, missing = words[i].text, slices.Concat(missing, words[i].missing)
			}
			c.Flags = append(c.Flags, Override{Key: flag, Text: value, Missing: missing})
			continue
		}
		o, err := ParseOverride(w.text)
		if err != nil && len(w.missing) == 0 {
			c.Faults = append(c.Faults, err.Error())
			continue
		}
		if err != nil && o.Key == "" || !isKey(o.Key) {
			c.Faults = append(c.Faults, fmt.Sprintf("%q has settings that are known only when the script runs: give them after the file", clip(w.text)))
			continue
		}
		o.Missing, o.Maybe = w.missing, w.maybe
		c.Overrides = append(c.Overrides, o)
	}
	return c
}

// ReadWords parses settings given as arguments.
func ReadWords(words []string) Command {
	all := make([]expanded, len(words))
	for i, w := range words {
		all[i].text = w
	}
	return settings("", all)
}

// reader goes through the commands of a script in the order of the file.
type reader struct {
	x       expander
	depth   int  // nesting of if, case, loops, functions and blocks
	chained bool // the command follows && or ||
	found   []launch
}

// visit is called for every node of a script by syntax.Walk.
func (r *reader) visit(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Word, *syntax.Redirect: // command substitutions are not followed
		return false
	case *syntax.CallExpr:
		r.assign(n.Assigns)
		r.run(n.Args)
		return false
	case *syntax.DeclClause:
		r.assign(n.Args)
		return false
	case *syntax.BinaryCmd:
		syntax.Walk(n.X, r.visit)
		before := r.chained
		r.chained = before || n.Op == syntax.OrStmt || n.Op == syntax.AndStmt && !assigns(n.X)
		syntax.Walk(n.Y, r.visit)
		r.chained = before
		return false
	case *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause, *syntax.Block, *syntax.FuncDecl:
		if _, function := n.(*syntax.FuncDecl); function {
			r.x.inside++
			defer func() { r.x.inside-- }()
		}
		r.depth++
		syntax.Walk(n, func(m syntax.Node) bool { return m == n || r.visit(m) })
		r.depth--
		return false
	}
	return true
}

// assigns reports whether a statement only sets variables and so cannot fail.
func assigns(s *syntax.Stmt) bool {
	switch n := s.Cmd.(type) {
	case *syntax.CallExpr:
		return len(n.Args) == 0
	case *syntax.DeclClause:
		return true
	case *syntax.BinaryCmd:
		return n.Op == syntax.AndStmt && assigns(n.X) && assigns(n.Y)
	}
	return false
}

// assign executes the assignments NAME=value, NAME+=value and NAME=(a b c).
func (r *reader) assign(list []*syntax.Assign) {
	for _, a := range list {
		if a.Naked || a.Name == nil || a.Index != nil {
			continue
		}
		var v variable
		if a.Array != nil {
			v.array = true
			for _, elem := range a.Array.Elems {
				if elem.Value != nil {
					v.list = append(v.list, r.x.fill(elem.Value)...)
				}
			}
		} else {
			e := r.x.one(a.Value)
			v = variable{text: e.text, missing: e.missing, maybe: e.maybe}
		}
		r.set(a.Name.Value, v, a.Append)
	}
}

func (r *reader) set(name string, v variable, more bool) {
	old, was := r.x.vars[name]
	if r.depth > 0 || r.chained {
		switch {
		case !was:
			old = v
			old.missing = append(old.missing, "$"+name)
		case more:
			old.missing = append(old.missing, "$"+name)
		case v.array || old.array || v.text != old.text || len(v.missing) > 0:
			old.maybe = join(old.maybe, []string{name})
		}
		r.x.vars[name] = old
		return
	}
	if more && was {
		v.list = append(slices.Clone(old.list), v.list...)
		v.text = old.text + v.text
		v.missing = append(slices.Clone(old.missing), v.missing...)
		v.array = old.array || v.array
		v.maybe = join(old.maybe, v.maybe)
	}
	if len(v.text) > maxText || len(v.list) > maxText {
		return
	}
	r.x.vars[name] = v
}

// Names returns the names of the variables that a script reads.
func Names(text string) (map[string]bool, error) {
	s, err := parseScript(text)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	add := func(name string) {
		if syntax.ValidName(name) {
			names[name] = true
		}
	}
	syntax.Walk(s.file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp:
			add(n.Param.Value)
		case *syntax.ArithmExp: // $((A + B)) needs no $
			syntax.Walk(n.X, func(n syntax.Node) bool {
				if w, ok := n.(*syntax.Word); ok {
					add(w.Lit())
				}
				return true
			})
		}
		return true
	})
	return names, nil
}
