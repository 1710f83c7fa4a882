package agent

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/openmanus/openmanus/env"
)

// toolCall is the format of tool use: <tool_call> with a JSON object, or
// <answer>. The object is GAIA's {"tool_name", "tool_input"} (protocol 5.12)
// or {"name", "arguments"}, as models trained on function calls write it;
// OpenManus-RL's own lines "tool: name" and "parameters: {json}" (spec 11.1)
// are accepted too. The environment converts the call to its server's form.
//
// Differs from upstream in: an unreadable call is no action (upstream runs a search
// for its text). If a reply has both tags, the call counts, as upstream.
type toolCall struct{ spec env.Spec }

func (toolCall) Name() string  { return env.FormatToolCall }
func (toolCall) MarksAnswers() {}

func (toolCall) Prompt() string {
	return "Write your reply in this form whatever was said about its form before: think first, then call exactly one tool, " +
		"with a JSON object between tags, like this:\n" +
		`<tool_call>{"tool_name": "the tool's name", "tool_input": {"the parameter's name": "its value"}}</tool_call>` +
		"\nWhen you know the answer, give it alone between <answer> and </answer> instead."
}

func (toolCall) StopStrings() []string { return []string{"</tool_call>", "</answer>"} }

// Fit rejects environments without tools.
func (toolCall) Fit(spec env.Spec, _ FormatOptions) (Format, error) {
	if spec.ToolCall == nil {
		return nil, errors.New("the environment has no tools: use react or action_tags")
	}
	return toolCall{spec: spec}, nil
}

func (f toolCall) Parse(text string) Parsed {
	if inner, ok := tagged(text, "tool_call"); ok {
		name, input, ok := readCall(inner)
		if !ok {
			return Parsed{Text: text}
		}
		p := Parsed{Action: inner, Text: text, OK: true}
		if f.spec.ToolCall != nil {
			if p.Text, p.OK = f.spec.ToolCall(name, input); !p.OK {
				return Parsed{Text: text}
			}
		}
		return p
	}
	if inner, ok := tagged(text, "answer"); ok {
		p := Parsed{Action: inner, Text: text, OK: true, Final: true}
		if f.spec.ToolAnswer != nil {
			p.Text = f.spec.ToolAnswer(inner)
		}
		return p
	}
	return Parsed{Text: text}
}

// readCall parses the text between the tags as a tool and its input.
func readCall(text string) (name string, input json.RawMessage, ok bool) {
	var call struct {
		ToolName  string          `json:"tool_name"`
		ToolInput json.RawMessage `json:"tool_input"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if strings.HasPrefix(text, "{") {
		if json.Unmarshal([]byte(text), &call) != nil {
			return "", nil, false
		}
		name, input = call.ToolName, call.ToolInput
		if name == "" {
			name, input = call.Name, call.Arguments
		}
	} else {
		name, input = readCallLines(text)
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	return name, input, name != ""
}

// readCallLines parses "tool:" and "parameters:" lines. Parameters that are not
// JSON become the parameter "query".
func readCallLines(text string) (name string, input json.RawMessage) {
	_, rest, ok := strings.Cut(text, "tool:")
	if !ok {
		return "", nil
	}
	name, _, _ = strings.Cut(rest, "\n")
	if _, rest, ok = strings.Cut(rest, "parameters:"); ok {
		if rest = strings.TrimSpace(rest); json.Valid([]byte(rest)) {
			input = json.RawMessage(rest)
		} else {
			input, _ = json.Marshal(map[string]string{"query": rest}) // a string always encodes
		}
	}
	return strings.TrimSpace(name), input
}
