package agent

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
)

// anyServer answers like the server of any environment and records the actions.
func anyServer(t *testing.T, name string, actions *[]string) string {
	t.Helper()
	created := `{"id":0,"env_idx":0}`
	switch name {
	case "webshop", "sqlgym", "searchqa", "weather", "movie", "academia", "todo", "sheet":
		created = "0"
	case "gaia":
		created = `"u"`
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := `{"observation":"o","state":"o","reward":0,"score":0,"done":false,"terminated":false,"available_actions":[]}`
		switch {
		case strings.HasSuffix(r.URL.Path, "/create"):
			reply = created
		case strings.HasSuffix(r.URL.Path, "/filtered_vocab"):
			reply = `["plant"]`
		default:
			body, err := io.ReadAll(r.Body)
			var step struct{ Action string }
			if err != nil || json.Unmarshal(body, &step) != nil {
				t.Errorf("%s: body %q", r.URL, body)
			}
			*actions = append(*actions, step.Action)
		}
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(func() { env.CloseIdle(); s.Close() })
	return s.URL
}

// TestInstructionRepliesReachTheServer checks that a reply in the form of the instruction
// reaches the server as a valid action, through the format and both generations of the client's
// parser. The patterns of the tool servers are copied from the servers (protocol 5.10).
func TestInstructionRepliesReachTheServer(t *testing.T) {
	toolCall := `^(Thought: [^\n]*\n\n)?Action: ?([a-z_A-Z]+) with Action Input: ?(\{.*\})\n?$`
	want := map[string]string{
		"maze": "^move left$", "wordle": "^p l a n t$", "textcraft": "^get 3 oak log$", "babyai": "^go to red ball 1$",
		"sciworld": "^open door to kitchen$", "alfworld": "^take mug 1 from desk 1$", "webshop": `^search\[red cotton shirt\]$`,
		"sqlgym":   "^SELECT name FROM city WHERE population > 1000000$",
		"webarena": "^[^`]*```click \\[12\\]```[^`]*$", "searchqa": "^[^<]*<search>capital of France</search>[^<]*$",
		"weather": toolCall, "movie": toolCall, "academia": toolCall, "todo": toolCall, "sheet": toolCall,
		"gaia": `(^|\n)Action: web_search Action Input: population of Iceland in 2020$`,
	}
	for _, name := range env.Names() {
		spec, err := env.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, formatName := range []string{env.FormatReact, env.FormatActionTags, env.FormatFunctionCalling, env.FormatCodeAsAction} {
			f, err := Formats.Lookup(formatName)
			if err != nil {
				t.Fatal(err)
			}
			calls := action.Format(formatName)
			if calls.Calls() && !slices.Contains(spec.ActionFormats, calls) {
				continue
			}
			if !calls.Calls() {
				calls = action.React
			}
			for _, parser := range []action.Parser{action.ParserG1, action.ParserG2} {
				if calls.Calls() && parser == action.ParserG1 {
					continue
				}
				t.Run(name+" "+formatName+" "+string(parser), func(t *testing.T) {
					_, reply, found := strings.Cut(spec.Instruction(formatName), "like this:\n")
					if !found {
						t.Fatalf("the instruction contains no example of a reply: %q", spec.Instruction(formatName))
					}
					var actions []string
					ctx := context.Background()
					client, err := spec.New(ctx, env.Options{BaseURL: anyServer(t, name, &actions), Parser: parser, ActionFormat: calls})
					if err != nil {
						t.Fatal(err)
					}
					r, err := client.Step(ctx, f.Parse(reply).Text)
					if err != nil || !r.Sent || len(actions) != 1 || r.Action != actions[0] {
						t.Fatalf("%+v, %v, the server received %q", r, err, actions)
					}
					if !regexp.MustCompile(want[name]).MatchString(actions[0]) {
						t.Errorf("for %q the server received %q, want %s", reply, actions[0], want[name])
					}
				})
			}
		}
	}
}
