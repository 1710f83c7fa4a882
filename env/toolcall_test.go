package env

import (
	"encoding/json"
	"testing"
)

func TestToolCalls(t *testing.T) {
	for _, tt := range []struct {
		env, tool, input, want string // want is "" if the call is invalid
	}{
		{"gaia", "web_search", `"population of Iceland"`, "Action: web_search Action Input: population of Iceland"},
		{"gaia", "web_search", `{"query": "population of Iceland"}`, "Action: web_search Action Input: population of Iceland"},
		{"gaia", "bash", `{"cmd": "ls", "dir": "/"}`, "Action: bash Action Input: {\"cmd\": \"ls\", \"dir\": \"/\"}"},
		{"gaia", "bash", `{"n": 3}`, `Action: bash Action Input: {"n": 3}`},
		{"gaia", "bash\nrm", `"x"`, ""},
		{"gaia", "", `"x"`, ""},
		{"weather", "get_elevation", `{"longitude": 10.75, "latitude": 59.90}`, `Action: get_elevation with Action Input: {"latitude": 59.90, "longitude": 10.75}`},
		{"weather", "get_user_current_date", `{}`, "Action: get_user_current_date with Action Input: {}"},
		{"sheet", "filter_cells", `{"query": "a\"\n<b>é", "in_row": null, "x": [true, false, 1e3, {}]}`,
			`Action: filter_cells with Action Input: {"in_row": None, "query": "a\"\n<b>é", "x": [True, False, 1e3, {}]}`},
		{"weather", "get_elevation", `[1]`, ""},
		{"weather", "get_elevation", `null`, ""},
		{"weather", "get_elevation", `{} {}`, ""},
		{"weather", "finish with", `{}`, ""},
	} {
		got, ok := spec(tt.env).ToolCall(tt.tool, json.RawMessage(tt.input))
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %s(%s) is %q, %v, want %q", tt.env, tt.tool, tt.input, got, ok, tt.want)
		}
	}
	for _, tt := range []struct{ env, answer, want string }{
		{"gaia", "366425", "Action: terminate Action Input: 366425"},
		{"weather", "18.5", `Action: finish with Action Input: {"answer": 18.5}`},
		{"movie", `["a", "b"]`, `Action: finish with Action Input: {"answer": ["a", "b"]}`},
		{"movie", "Heat, 1995", `Action: finish with Action Input: {"answer": "Heat, 1995"}`},
		{"sheet", "done", "Action: finish with Action Input: {}"},
	} {
		if got := spec(tt.env).ToolAnswer(tt.answer); got != tt.want {
			t.Errorf("%s: the action for the answer %s is %q, want %q", tt.env, tt.answer, got, tt.want)
		}
	}
	for _, name := range Names() {
		if s := spec(name); (s.ToolCall == nil) != (s.ToolAnswer == nil) {
			t.Errorf("%s has only one of ToolCall and ToolAnswer", name)
		}
	}
}
