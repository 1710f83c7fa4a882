package hydra

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Command is the command line that a script ends in.
type Command struct {
	Program   string // "verl.trainer.main_ppo", or "" for bare settings
	Overrides []Override
	Flags     []Override // of Hydra: --config-name and its kin
	Faults    []string   // words that are no settings
	Others    []string   // what else the script starts that is not read
}

// ReadScript finds the command in a script that starts training, or takes a
// file of settings, one or several a line. fixed are variables whose values the
// user gives; those that neither they nor the script set come from environ.
//
// Nothing is run. Assignments are followed in the order of the file. Those
// inside if, case, loops and functions, and behind && and ||, may not be made:
// a variable that is set nowhere else is left open, and one that is keeps its
// value, with a word about it in every setting that has it.
func ReadScript(text string, fixed map[string]string, environ func(string) string) (Command, error) {
	tokens, err := lex(text)
	if err != nil {
		return Command{}, err
	}
	r := &reader{x: expander{fixed: fixed, vars: map[string]variable{}, environ: environ}}
	for left := tokens; len(left) > 0; {
		left = left[r.command(left):]
	}
	if len(r.found) > 0 {
		return choose(r.found)
	}
	return bare(tokens, fixed, environ)
}

// bare reads a file that holds settings and nothing else.
func bare(tokens []token, fixed map[string]string, environ func(string) string) (Command, error) {
	x := expander{fixed: fixed, environ: environ}
	var words []expanded
	for _, t := range tokens {
		if t.op == "\n" {
			continue
		}
		w := x.one(t.word)
		if t.op != "" || !strings.Contains(w.text, "=") && !strings.HasPrefix(w.text, "~") {
			return Command{}, fmt.Errorf("line %d: neither a command that trains, such as python3 -m verl.trainer.main_ppo key=value, nor a file of settings", t.line)
		}
		words = append(words, w)
	}
	if len(words) == 0 {
		return Command{}, errors.New("there is no command that trains, such as python3 -m verl.trainer.main_ppo key=value, and no settings either")
	}
	return settings("", words), nil
}

// settings turns words into overrides.
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
			c.Faults = append(c.Faults, fmt.Sprintf("%q stands for settings that only the running script knows: give them after the file", clip(w.text)))
			continue
		}
		o.Missing, o.Maybe = w.missing, w.maybe
		c.Overrides = append(c.Overrides, o)
	}
	return c
}

// ReadWords reads settings that are given as arguments.
func ReadWords(words []string) Command {
	all := make([]expanded, len(words))
	for i, w := range words {
		all[i].text = w
	}
	return settings("", all)
}

// reader goes through the commands of a script.
type reader struct {
	x       expander
	depth   int   // of if, case, loops and functions
	bodies  []int // depths at which functions begin
	heading bool  // the name of a function has been read, and its body not yet
	chained bool  // the command stands behind && or ||
	found   []launch
}

var (
	opening = []string{"if", "while", "until", "for", "case", "select", "{"}
	closers = []string{"fi", "done", "esac", "}"}
	between = []string{"then", "else", "elif", "do", "!", "time", "exec"}
	setters = []string{"export", "declare", "local", "readonly", "typeset"}
)

// command takes one command off the tokens and returns how many they were.
func (r *reader) command(tokens []token) int {
	n := 0
	var words []token
	setter, assigned, chained := false, false, false
	for n < len(tokens) {
		t := tokens[n]
		if t.op == ">" { // with what it leads to
			if k := len(words) - 1; k >= 0 && t.joined && isNumber(literal(words[k])) {
				words = words[:k] // 2>
			}
			n += min(2, len(tokens)-n)
			if n <= len(tokens) && tokens[n-1].op != "" && tokens[n-1].op != ">" {
				n--
			}
			continue
		}
		if t.op != "" {
			n++
			next := token{}
			if n < len(tokens) {
				next = tokens[n]
			}
			switch {
			case t.op == "\n" && n == 1:
				chained = r.chained // && at the end of a line
			case (t.op == "&" || t.op == "|") && next.op == t.op && next.joined:
				n++
				chained = r.chained || t.op == "|" || len(words) > 0 || !assigned // an assignment does not fail
			case t.op == "(" && next.op == ")" && len(words) == 1:
				r.heading, words = true, nil
			}
			break
		}
		if len(words) == 0 {
			switch w := literal(t); {
			case w == "function" && n+1 < len(tokens) && tokens[n+1].op == "":
				r.heading = true
				n += 2
				continue
			case slices.Contains(opening, w):
				r.open(w)
				n++
				if w == "for" || w == "case" || w == "select" {
					r.chained = false
					return n + endOfHead(tokens[n:])
				}
				continue
			case slices.Contains(closers, w):
				r.close()
				n++
				continue
			case slices.Contains(between, w), slices.Contains(setters, w):
				setter = setter || slices.Contains(setters, w)
				n++
				continue
			}
			if used := r.assign(tokens[n:], setter); used > 0 {
				n += used
				assigned = true
				continue
			}
		}
		words = append(words, t)
		n++
	}
	r.run(words)
	r.chained = chained
	return n
}

// open and close keep account of what may not be run, or later.
func (r *reader) open(word string) {
	r.depth++
	if r.heading && word == "{" {
		r.bodies = append(r.bodies, r.depth)
	}
	r.heading, r.x.inside = false, len(r.bodies) > 0
}

func (r *reader) close() {
	r.depth = max(0, r.depth-1)
	for n := len(r.bodies); n > 0 && r.bodies[n-1] > r.depth; n-- {
		r.bodies = r.bodies[:n-1]
	}
	r.x.inside = len(r.bodies) > 0
}

// endOfHead skips "x in a b c" behind for and case.
func endOfHead(tokens []token) int {
	for i, t := range tokens {
		if t.op == "\n" || t.op == ";" || t.op == "" && literal(t) == "in" {
			return i + 1
		}
	}
	return len(tokens)
}

// literal is the text of a word without quotes and variables, else "".
func literal(t token) string {
	if t.op != "" || len(t.word) != 1 || t.word[0].expand || t.word[0].run || t.word[0].quoted {
		return ""
	}
	return t.word[0].text
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// assign takes NAME=value, NAME+=value and NAME=(a b c) and returns how many
// tokens they were.
func (r *reader) assign(tokens []token, setter bool) int {
	t := tokens[0]
	if t.op != "" || len(t.word) == 0 || t.word[0].expand || t.word[0].run || t.word[0].quoted {
		return 0
	}
	head := t.word[0].text
	n := nameLength(head)
	name, rest := head[:n], head[n:]
	more := strings.HasPrefix(rest, "+=")
	rest = strings.TrimPrefix(rest, "+")
	if n == 0 || !strings.HasPrefix(rest, "=") {
		if setter && n == len(head) {
			return 1 // export NAME
		}
		return 0
	}
	value := append([]piece{{text: rest[1:]}}, t.word[1:]...)
	if rest == "=" && len(t.word) == 1 && len(tokens) > 1 && tokens[1].op == "(" && tokens[1].joined {
		end := slices.IndexFunc(tokens, func(t token) bool { return t.op == ")" })
		if end < 0 {
			end = len(tokens) - 1
		}
		v := variable{array: true}
		for _, t := range tokens[2:max(2, end)] {
			if t.op != "" {
				continue
			}
			v.list = append(v.list, r.x.fill(t.word)...)
		}
		r.set(name, v, more)
		return end + 1
	}
	e := r.x.one(value)
	r.set(name, variable{text: e.text, missing: e.missing, maybe: e.maybe}, more)
	return 1
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
