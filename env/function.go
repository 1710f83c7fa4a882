package env

import (
	"fmt"
	"strings"
)

// function is one that a model may call under the action formats of function
// calls (protocol 4.3). The server knows commands only: a call becomes one.
type function struct {
	name   string
	params []string
	// forms are the commands for no argument, one, two; {} stands for an
	// argument. An empty one is an invalid action.
	forms []string
	// extra lets P-FC ignore arguments beyond the last form.
	extra bool
	// optional says that P-CODE may leave out the last parameter.
	optional bool
	// codeParam is P-CODE's name for the only parameter, where it has another.
	codeParam string
	doc       string
}

// functions are those of one environment.
type functions []function

func (fs functions) find(name string) (function, bool) {
	for _, f := range fs {
		if f.name == name {
			return f, true
		}
	}
	return function{}, false
}

// render writes the command for as many arguments as args has.
func (f function) render(args []string) (string, bool) {
	if len(args) >= len(f.forms) || f.forms[len(args)] == "" {
		return "", false
	}
	parts := strings.Split(f.forms[len(args)], "{}")
	var b strings.Builder
	for i, part := range parts {
		b.WriteString(part)
		if i < len(args) {
			b.WriteString(args[i])
		}
	}
	return b.String(), true
}

// shape tells the model the functions and how to call one under a format.
// example holds the arguments of fs's first function.
func (fs functions) shape(format string, example ...string) string {
	var b strings.Builder
	b.WriteString("You act by calling one of these functions:\n")
	for _, f := range fs {
		params := append([]string(nil), f.params...)
		if format == FormatCodeAsAction && f.codeParam != "" {
			params[0] = f.codeParam
		}
		if f.optional {
			params[len(params)-1] += " (optional)"
		}
		fmt.Fprintf(&b, "%s(%s): %s\n", f.name, strings.Join(params, ", "), f.doc)
	}
	first := fs[0]
	quoted := make([]string, len(example))
	if format == FormatCodeAsAction {
		for i, a := range example {
			quoted[i] = `"` + a + `"`
		}
		fmt.Fprintf(&b, "All arguments are strings. Reply with one block of Python that holds your thinking as comments and then exactly one call, like this:\n"+
			"```python\n# why you choose it\n%s(%s)\n```", first.name, strings.Join(quoted, ", "))
		return b.String()
	}
	for i, a := range example {
		quoted[i] = fmt.Sprintf(`"%s": "%s"`, first.params[i], a)
	}
	fmt.Fprintf(&b, "All arguments are strings. Reply with one JSON object and nothing else, with exactly these keys, like this:\n"+
		`{"thought": "why you choose it", "function_name": "%s", "arguments": {%s}}`, first.name, strings.Join(quoted, ", "))
	return b.String()
}
