package env

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/env/action"
)

// ownServer is a server of a user's own. It records the requests.
func ownServer(t *testing.T) (url string, requests *[]string) {
	t.Helper()
	requests = &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*requests = append(*requests, r.URL.Path+" "+string(body))
		reply := map[string]string{
			"/create": `{"id":7}`,
			"/reset":  `{"id":7,"observation":"start","reward":0,"done":false}`,
			"/step":   `{"observation":"next","reward":0.5,"done":true}`,
			"/close":  `true`,
		}[r.URL.Path]
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(func() { CloseIdle(); s.Close() })
	return s.URL, requests
}

// TestOwnEnvironment plays an episode in an environment that no registry knows.
func TestOwnEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		parser action.Parser
		reply  string
		sent   string
	}{
		"the text after the mark":    {action.ParserG2, "Thought: go.\n\nAction: left\n", "left"},
		"only the first action":      {action.ParserG1, "Action: left\nAction: right", "left"},
		"a reply without a mark":     {action.ParserG2, " left ", "left"},
		"the whole reply":            {action.ParserWhole, "Thought: go.\nAction: left\n", "Thought: go.\nAction: left\n"},
		"a name with JSON arguments": {action.ParserG2, mustCall(t, "search", `{"query": "a\nb <c>"}`), `search {"query":"a\nb <c>"}`},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := ownServer(t)
			spec := AgentGym("mine", Own{SuccessReward: 0.4, Cumulative: true})
			c0, err := spec.New(t.Context(), Options{BaseURL: url, Parser: c.parser})
			if err != nil {
				t.Fatal(err)
			}
			first, err := ResetTask(t.Context(), c0, taskAt(1<<40))
			if err != nil || first.Text != "start" {
				t.Fatalf("reset: %+v, %v", first, err)
			}
			r, err := c0.Step(t.Context(), c.reply)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(StepResult{Observation: "next", Reward: 0.5, Done: true, Action: c.sent, Sent: true}, r); d != "" {
				t.Error(d)
			}
			if !spec.Success(r.Reward) || !spec.Cumulative {
				t.Errorf("the properties of the environment are lost: %+v", spec)
			}
			if err := c0.Close(t.Context()); err != nil {
				t.Error(err)
			}
			want := []string{`/create {}`, `/reset {"data_idx":1099511627776,"id":7}`, `/step {"action":` + quote(c.sent) + `,"id":7}`, `/close {"id":7}`}
			if d := cmp.Diff(want, *requests); d != "" {
				t.Error(d)
			}
		})
	}
}

func mustCall(t *testing.T, name, input string) string {
	t.Helper()
	text, ok := action.NamedCall(name, json.RawMessage(input))
	if !ok {
		t.Fatalf("%s %s is no call", name, input)
	}
	return text
}

// TestNamedCallSurvivesItsParser checks that an input with the mark of an action arrives unchanged.
func TestNamedCallSurvivesItsParser(t *testing.T) {
	want := `say "Action: stop" \ Action: go`
	for _, sent := range []string{mustCall(t, "say", string(`{"text":`+quote(want)+`}`)), action.NamedAnswer(want)} {
		var got map[string]string
		text := action.ParseSplit(sent)
		at := strings.IndexByte(text, 0x7b)
		if err := json.Unmarshal([]byte(text[at:]), &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, v := range got {
			if v != want {
				t.Errorf("%q arrived as %q", want, v)
			}
		}
	}
	for _, name := range []string{"", "two words", "a\nb"} {
		if text, ok := action.NamedCall(name, json.RawMessage(`{}`)); ok {
			t.Errorf("%q became the action %q", name, text)
		}
	}
	if text, ok := action.NamedCall("say", json.RawMessage(`["list"]`)); ok {
		t.Errorf("a list became the action %q", text)
	}
}

// TestParserWholeIsForOwnServers checks that registered environments refuse the parser.
func TestParserWholeIsForOwnServers(t *testing.T) {
	maze, err := Lookup("maze")
	if err != nil {
		t.Fatal(err)
	}
	if err := (Options{Parser: action.ParserWhole}).Validate(maze); err == nil {
		t.Error("maze accepts the parser whole")
	}
}
