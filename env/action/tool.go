package action

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Tools called in JSON: the format tool_call has one grammar for every server
// that has tools, and what is here writes a call as the server reads it.
// OpenManus-RL's two GAIA servers want two grammars (protocol 5.12); AgentGym's
// tool servers want a Python dictionary (protocol 5.10).

// GaiaCall is an action of the second GAIA server. It takes one text, so an
// input of one text is that text, and any other its JSON.
func GaiaCall(name string, input json.RawMessage) (string, bool) {
	if !isToolName(name) {
		return "", false
	}
	text := strings.TrimSpace(string(input))
	var s string
	var fields map[string]json.RawMessage
	switch {
	case json.Unmarshal(input, &s) == nil:
		text = s
	case json.Unmarshal(input, &fields) == nil && len(fields) == 1:
		for _, only := range fields {
			if json.Unmarshal(only, &s) == nil {
				text = s
			}
		}
	}
	return "Action: " + name + " Action Input: " + strings.TrimSpace(text), true
}

// GaiaAnswer ends a task of the second GAIA server.
func GaiaAnswer(text string) string {
	return "Action: terminate Action Input: " + text
}

// ToolCall is an action of a tool server.
func ToolCall(name string, input json.RawMessage) (string, bool) {
	if !isToolName(name) {
		return "", false
	}
	var fields map[string]any
	if !decodeOne(input, &fields) || fields == nil {
		return "", false
	}
	return "Action: " + name + " with Action Input: " + pythonLiteral(fields), true
}

// ToolAnswer ends a task of a tool server. An answer that is JSON, such as a
// number or a list, is that; any other is a text.
func ToolAnswer(text string) string {
	var v any
	if !decodeOne([]byte(text), &v) {
		v = text
	}
	return "Action: finish with Action Input: " + pythonLiteral(map[string]any{"answer": v})
}

// SheetAnswer ends a task of the sheet server, which takes no answer.
func SheetAnswer(string) string { return "Action: finish with Action Input: {}" }

// isToolName reports whether a name can stand on the line of an action.
func isToolName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '.' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// decodeOne reads one JSON value, with the digits of its numbers, and nothing
// after it.
func decodeOne(text []byte, v any) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(v) == nil && !d.More() && len(bytes.TrimSpace(text[d.InputOffset():])) == 0
}

// pythonLiteral writes a decoded JSON value in Python's notation, on one line.
func pythonLiteral(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case json.Number:
		return v.String()
	case string:
		return pythonString(v)
	case []any:
		items := make([]string, len(v))
		for i, x := range v {
			items[i] = pythonLiteral(x)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		items := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			items = append(items, pythonString(key)+": "+pythonLiteral(v[key]))
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	panic(fmt.Sprintf("env: a %T is not JSON", v))
}

// pythonString quotes a text. Every escape that JSON writes is one of
// Python's too.
func pythonString(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// ToolShape tells the model how to write a tool call under the format
// tool_call.
func ToolShape(name, input string) string {
	return "Think first, then call exactly one tool, with a JSON object between tags, like this:\n" +
		`<tool_call>{"tool_name": "` + name + `", "tool_input": ` + input + `}</tool_call>` +
		"\nWhen you know the answer, give it alone between <answer> and </answer> instead."
}
