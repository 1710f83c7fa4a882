package action

import (
	"fmt"
	"strings"
)

// Function is a function that the model may call under FunctionCalling and
// CodeAsAction (protocol 4.3). Parsers translate a call to a command, the only
// notation that the server reads.
type Function struct {
	Name   string
	Params []string
	// Forms[n] is the command for n arguments, with {} in place of each argument. A
	// call with n arguments is invalid if Forms[n] is empty or missing.
	Forms []string
	// Extra makes ParseJSON accept more arguments than the last form has, and ignore the surplus.
	Extra bool
	// Optional lets ParsePython accept calls without the last parameter.
	Optional bool
	// CodeParam, if not "", is the name of the only parameter for ParsePython.
	CodeParam string
	Doc       string // description in the model's instruction
}

// Functions lists the functions of one environment.
type Functions []Function

func (fs Functions) find(name string) (Function, bool) {
	for _, f := range fs {
		if f.Name == name {
			return f, true
		}
	}
	return Function{}, false
}

// render returns the command for the arguments. ok is false if their number is wrong.
func (f Function) render(args []string) (command string, ok bool) {
	if len(args) >= len(f.Forms) || f.Forms[len(args)] == "" {
		return "", false
	}
	parts := strings.Split(f.Forms[len(args)], "{}")
	var b strings.Builder
	for i, part := range parts {
		b.WriteString(part)
		if i < len(args) {
			b.WriteString(args[i])
		}
	}
	return b.String(), true
}

// Shape returns the part of an instruction that lists the functions and shows a call of
// the first function under a format. example lists the arguments of this call.
func (fs Functions) Shape(format string, example ...string) string {
	var b strings.Builder
	b.WriteString("You act by calling one of these functions:\n")
	for _, f := range fs {
		params := append([]string(nil), f.Params...)
		if format == string(CodeAsAction) && f.CodeParam != "" {
			params[0] = f.CodeParam
		}
		if f.Optional {
			params[len(params)-1] += " (optional)"
		}
		fmt.Fprintf(&b, "%s(%s): %s\n", f.Name, strings.Join(params, ", "), f.Doc)
	}
	first := fs[0]
	quoted := make([]string, len(example))
	if format == string(CodeAsAction) {
		for i, a := range example {
			quoted[i] = `"` + a + `"`
		}
		fmt.Fprintf(&b, "All arguments are strings. Reply with one block of Python that holds your thinking as comments and then exactly one call, like this:\n"+
			"```python\n# why you choose it\n%s(%s)\n```", first.Name, strings.Join(quoted, ", "))
		return b.String()
	}
	for i, a := range example {
		quoted[i] = fmt.Sprintf(`"%s": "%s"`, first.Params[i], a)
	}
	fmt.Fprintf(&b, "All arguments are strings. Reply with one JSON object and nothing else, with exactly these keys, like this:\n"+
		`{"thought": "why you choose it", "function_name": "%s", "arguments": {%s}}`, first.Name, strings.Join(quoted, ", "))
	return b.String()
}
