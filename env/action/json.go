package action

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// JSONCall returns the JSON object between the first and the last brace of a
// reply. ok reports whether the object is a call of some function. JSONCall does the
// part of the protocol's parser P-FC that needs no list of functions.
func JSONCall(text string) (object string, ok bool) {
	from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if from < 0 || to < from {
		return "", false
	}
	object = text[from : to+1]
	_, _, ok = readCall(object)
	return object, ok
}

// readCall reads a call: an object with the keys thought, function_name and
// arguments.
func readCall(object string) (function string, args map[string]json.RawMessage, ok bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(escapeControls(object), &fields) != nil {
		return "", nil, false
	}
	_, thought := fields["thought"]
	ok = thought && json.Unmarshal(fields["function_name"], &function) == nil && json.Unmarshal(fields["arguments"], &args) == nil && args != nil
	return function, args, ok
}

// escapeControls escapes control characters inside JSON strings, so that a string
// may contain line ends and tabs, as with strict=False in Python.
func escapeControls(s string) []byte {
	b := make([]byte, 0, len(s)+16)
	inside := false
	for i := 0; i < len(s); i++ {
		ch := s[i]
		switch {
		case inside && ch == '\\' && i+1 < len(s):
			b = append(b, ch) // an escaped line end stays invalid
			i++
			ch = s[i]
		case ch == '"':
			inside = !inside
		case inside && ch < 0x20:
			b = fmt.Appendf(b, `\u%04x`, ch)
			continue
		}
		b = append(b, ch)
	}
	return b
}

// ParseJSON is the protocol's parser P-FC: it returns the command for the JSON function call in a reply.
// ok is false for an invalid action.
func (fs Functions) ParseJSON(text string) (action string, ok bool) {
	object, ok := JSONCall(text)
	if !ok {
		return "", false
	}
	function, given, _ := readCall(object)
	f, ok := fs.find(strip(function))
	if !ok {
		return "", false
	}
	n := len(given)
	if f.Extra {
		n = min(n, len(f.Forms)-1)
	}
	if n >= len(f.Forms) {
		return "", false
	}
	args := make([]string, n)
	for i := range args {
		if args[i], ok = pythonText(given[f.Params[i]]); !ok {
			return "", false
		}
	}
	return f.render(args)
}

// pythonText returns a JSON value as Python formats it in a string. ok is false
// for a list or an object, which cannot be an argument.
func pythonText(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err == nil
	case 't':
		return "True", true
	case 'f':
		return "False", true
	case 'n':
		return "None", true
	case '[', '{':
		return "", false
	}
	return pythonNumber(string(raw))
}

// pythonNumber returns a number literal as Python formats it.
func pythonNumber(s string) (string, bool) {
	if !strings.ContainsAny(s, ".eE") {
		digits, negative := strings.CutPrefix(s, "-")
		if digits == "" || strings.Trim(digits, "0123456789") != "" {
			return "", false
		}
		zero := strings.Trim(digits, "0") == ""
		switch {
		case zero:
			return "0", true
		case digits[0] == '0': // Python rejects such a number
			return "", false
		case negative:
			return "-" + digits, true
		}
		return digits, true
	}
	if strings.Trim(s, "0123456789.eE+-") != "" {
		return "", false
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(x, 0) {
		return "", false
	}
	if math.IsInf(x, 0) {
		return strings.ToLower(strings.TrimPrefix(fmt.Sprint(x), "+")), true
	}
	if a := math.Abs(x); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(x, 'e', -1, 64), true
	}
	text := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text, true
}
