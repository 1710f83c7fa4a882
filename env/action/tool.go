package action

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/internal/plainjson"
)

// Under the format tool_call the model calls the tools of every server in JSON. The
// functions here translate a call to the notation of a server: one text for
// OpenManus-RL's second GAIA server (protocol 5.12), a Python dictionary for
// AgentGym's tool servers (protocol 5.10).

// GaiaCall returns the action that calls a tool of the GAIA server. The server takes
// one text. An input that is a string, or an object with a string as its only value, is
// sent as that string, any other input as JSON. ok is false if name is no tool name.
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

// GaiaAnswer returns the action that answers a task of the GAIA server.
func GaiaAnswer(text string) string {
	return "Action: terminate Action Input: " + text
}

// ToolCall returns the action that calls a tool of a tool server. ok is false if
// name is no tool name or input is no JSON object.
func ToolCall(name string, input json.RawMessage) (string, bool) {
	if !isToolName(name) {
		return "", false
	}
	var fields map[string]any
	if plainjson.Unmarshal(input, &fields) != nil || fields == nil {
		return "", false
	}
	return "Action: " + name + " with Action Input: " + pythonLiteral(fields), true
}

// ToolAnswer returns the action that answers a task of a tool server. An answer that
// is valid JSON, such as a number or a list, is sent as a Python value, any other
// answer as a string.
func ToolAnswer(text string) string {
	var v any
	if plainjson.Unmarshal([]byte(text), &v) != nil {
		v = text
	}
	return "Action: finish with Action Input: " + pythonLiteral(map[string]any{"answer": v})
}

// NamedCall returns the action that calls a tool of a user's own server: the tool's
// name, a space, and the input as JSON on one line. ok is false if name is no tool name
// or input is no JSON object.
func NamedCall(name string, input json.RawMessage) (string, bool) {
	if !isToolName(name) {
		return "", false
	}
	var fields map[string]any
	if plainjson.Unmarshal(input, &fields) != nil || fields == nil {
		return "", false
	}
	return named(name, fields), true
}

// NamedAnswer returns the action that answers a task of a user's own server.
func NamedAnswer(text string) string { return named("finish", map[string]any{"answer": text}) }

// named escapes the mark of an action in the input, where a parser would find it.
func named(tool string, input map[string]any) string {
	text, _ := plainjson.Marshal(input) // decoded JSON always encodes
	return actionMark + " " + tool + " " + strings.ReplaceAll(string(text), actionMark, `Action\u003a`)
}

// SheetAnswer returns the action that ends a task of the sheet server, which takes
// no answer.
func SheetAnswer(string) string { return "Action: finish with Action Input: {}" }

// isToolName reports whether name consists of the characters of a tool name, so
// that it cannot break the line of an action.
func isToolName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '.' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// pythonLiteral returns a decoded JSON value as a Python literal on one line.
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

// pythonString returns s as a Python string literal. JSON's escapes are valid in
// Python.
func pythonString(s string) string {
	text, _ := plainjson.Marshal(s) // a string always encodes
	return string(text)
}

// ToolShape returns the part of an instruction that describes a tool call under the
// format tool_call, with an example.
func ToolShape(name, input string) string {
	return "Think first, then call exactly one tool, with a JSON object between tags, like this:\n" +
		`<tool_call>{"tool_name": "` + name + `", "tool_input": ` + input + `}</tool_call>` +
		"\nWhen you know the answer, give it alone between <answer> and </answer> instead."
}
