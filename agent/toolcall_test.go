package agent

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/env"
)

// fitted returns a format for an environment.
func fitted(t *testing.T, name, in string, o FormatOptions) Format {
	t.Helper()
	spec, err := env.Lookup(in)
	if err != nil {
		t.Fatal(err)
	}
	f, err := FormatFor(name, spec, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestToolCall(t *testing.T) {
	for _, tt := range []struct {
		name, env, text string
		want            Parsed
	}{
		{"GAIA's object", "gaia", `I look. <tool_call>{"tool_name":"web_search","tool_input":{"q":"Oslo"}}</tool_call>`,
			Parsed{Action: `{"tool_name":"web_search","tool_input":{"q":"Oslo"}}`, Text: "Action: web_search Action Input: Oslo", OK: true}},
		{"a function call", "weather", `<tool_call>{"name": "get_distance", "arguments": {"latitude1": 1, "x": null}}</tool_call>`,
			Parsed{Action: `{"name": "get_distance", "arguments": {"latitude1": 1, "x": null}}`, Text: `Action: get_distance with Action Input: {"latitude1": 1, "x": None}`, OK: true}},
		{"without input", "weather", `<tool_call>{"tool_name": "get_user_current_date"}</tool_call>`,
			Parsed{Action: `{"tool_name": "get_user_current_date"}`, Text: "Action: get_user_current_date with Action Input: {}", OK: true}},
		{"lines", "weather", "<tool_call>\ntool: get_elevation\nparameters: {\"latitude\": 2}\n</tool_call>",
			Parsed{Action: "tool: get_elevation\nparameters: {\"latitude\": 2}", Text: `Action: get_elevation with Action Input: {"latitude": 2}`, OK: true}},
		{"lines of text", "gaia", "<tool_call>tool: web_search\nparameters: the king</tool_call>",
			Parsed{Action: "tool: web_search\nparameters: the king", Text: "Action: web_search Action Input: the king", OK: true}},
		{"an answer", "gaia", "So <answer> 42 </answer>", Parsed{Action: "42", Text: "Action: terminate Action Input: 42", OK: true, Final: true}},
		{"a call and an answer", "weather", `<answer>4</answer><tool_call>{"tool_name":"a"}</tool_call>`,
			Parsed{Action: `{"tool_name":"a"}`, Text: "Action: a with Action Input: {}", OK: true}},
		{"broken JSON", "gaia", `<tool_call>{"tool_name":</tool_call>`, Parsed{Text: `<tool_call>{"tool_name":</tool_call>`}},
		{"no name", "gaia", `<tool_call>{"tool_input":1}</tool_call>`, Parsed{Text: `<tool_call>{"tool_input":1}</tool_call>`}},
		{"a name in two lines", "gaia", `<tool_call>{"tool_name":"a\nb"}</tool_call>`, Parsed{Text: `<tool_call>{"tool_name":"a\nb"}</tool_call>`}},
		{"unclosed", "gaia", `<tool_call>{"tool_name":"a"}`, Parsed{Text: `<tool_call>{"tool_name":"a"}`}},
		{"text", "gaia", "Action: bash Action Input: ls", Parsed{Text: "Action: bash Action Input: ls"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, fitted(t, env.FormatToolCall, tt.env, FormatOptions{}).Parse(tt.text)); diff != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", tt.text, diff)
			}
		})
	}
	maze, err := env.Lookup("maze")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := FormatFor(env.FormatToolCall, maze, FormatOptions{}); err == nil || !strings.Contains(err.Error(), "no tools") {
		t.Errorf("tool_call in maze: %v", err)
	}
	if _, err := FormatFor("none", maze, FormatOptions{}); err == nil || !strings.Contains(err.Error(), "tool_call") {
		t.Errorf("an unknown format: %v", err)
	}
}
