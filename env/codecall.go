package env

import "slices"

// CodeCall is the part of P-CODE that needs no function table: the code of a
// reply without its fence, and whether it is a single call.
func CodeCall(text string) (code string, ok bool) {
	code = uncode(text)
	_, ok = readPython(code)
	return code, ok
}

// parseCode is P-CODE: the command that a reply's Python call stands for. ok
// is false for an invalid action: anything but one call of a listed function
// with text and number literals. AgentGym evaluates the code; nothing is run
// here.
func (fs functions) parseCode(text string) (action string, ok bool) {
	c, ok := readPython(uncode(text))
	if !ok {
		return "", false
	}
	f, ok := fs.find(c.name)
	if !ok {
		return "", false
	}
	params := slices.Clone(f.params)
	if f.codeParam != "" {
		params[0] = f.codeParam
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
	// An optional argument that is empty, or the number 0, counts as left out.
	if last := len(values) - 1; f.optional && (values[last] == nil || values[last].falsy) {
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
