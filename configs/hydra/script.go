package hydra

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// trainers are the programs whose settings are read, by what a command line
// calls them.
var trainers = regexp.MustCompile(`(^|[./])(main_[a-z_0-9]*|[a-z_0-9]*sft_trainer)(\.py)?$`)

// Command is the command line that a script ends in.
type Command struct {
	Program   string // "verl.trainer.main_ppo", or "" for bare settings
	Overrides []Override
	Faults    []string // words that are no settings
}

// ReadScript finds the command in a script that starts training, or takes a
// file of settings, one or several a line. fixed are variables whose values the
// user gives; those that neither they nor the script set come from environ.
//
// Nothing is run. Assignments are followed in the order of the file; those
// inside if, case, loops and functions only count for variables that are set
// nowhere else, and then leave the value open, since it is not known which
// branch is taken.
func ReadScript(text string, fixed map[string]string, environ func(string) string) (Command, error) {
	tokens, err := lex(text)
	if err != nil {
		return Command{}, err
	}
	r := &reader{x: expander{fixed: fixed, vars: map[string]variable{}, environ: environ}}
	for len(tokens) > 0 {
		n := r.command(tokens)
		tokens = tokens[n:]
	}
	if r.found != nil {
		return *r.found, nil
	}
	return bare(text)
}

// bare reads a file that holds settings and nothing else.
func bare(text string) (Command, error) {
	tokens, err := lex(text)
	if err != nil {
		return Command{}, err
	}
	x := expander{}
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
			// --config-name ppo_trainer: which file of defaults, and where.
			if !strings.Contains(w.text, "=") && i+1 < len(words) && !strings.Contains(words[i+1].text, "=") {
				i++
			}
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
		o.Missing = w.missing
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
	x     expander
	depth int // of if, case, loops and functions
	found *Command
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
	setter := false
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
			break
		}
		if len(words) == 0 {
			switch w := literal(t); {
			case slices.Contains(opening, w):
				r.depth++
				n++
				if w == "for" || w == "case" || w == "select" {
					return n + endOfHead(tokens[n:])
				}
				continue
			case slices.Contains(closers, w):
				r.depth = max(0, r.depth-1)
				n++
				continue
			case slices.Contains(between, w), slices.Contains(setters, w):
				setter = setter || slices.Contains(setters, w)
				n++
				continue
			}
			if used := r.assign(tokens[n:], setter); used > 0 {
				n += used
				continue
			}
		}
		words = append(words, t)
		n++
	}
	r.run(words)
	return n
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
	r.set(name, variable{text: e.text, missing: e.missing}, more)
	return 1
}

func (r *reader) set(name string, v variable, more bool) {
	old, was := r.x.vars[name]
	if r.depth > 0 {
		if !was {
			v.missing = append(v.missing, "$"+name)
			r.x.vars[name] = v
		} else if more {
			old.missing = append(old.missing, "$"+name)
			r.x.vars[name] = old
		}
		return
	}
	if more && was {
		v.list = append(slices.Clone(old.list), v.list...)
		v.text = old.text + v.text
		v.missing = append(slices.Clone(old.missing), v.missing...)
		v.array = old.array || v.array
	}
	if len(v.text) > maxText || len(v.list) > maxText {
		return
	}
	r.x.vars[name] = v
}

// run looks whether a command is the one that trains; the first is taken.
func (r *reader) run(words []token) {
	if r.found != nil {
		return
	}
	for i, t := range words {
		w := r.x.one(t.word)
		if !trainers.MatchString(w.text) || i == 0 && !strings.HasSuffix(w.text, ".py") {
			continue
		}
		var rest []expanded
		for _, t := range words[i+1:] {
			rest = append(rest, r.x.fill(t.word)...)
		}
		c := settings(w.text, rest)
		r.found = &c
		return
	}
}
