package env

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/env/action"
)

// These tests use the transcripts of the protocol, sections 5.2 to 5.4, for servers that call an instance "id".

const (
	babyaiFirst = `{"observation":"Your goal: go to the red ball\nYou are not carrying anything.\nAvailable actions: [\"turn left\"]","reward":0,"score":0,"deleted":false,"done":false}`
	babyaiWon   = `{"observation":"In front of you ...\n The task is completed.\nAvailable actions: []","reward":0.9015625,"score":0.9015625,"done":true}`
	sciFirst    = `{"task_name":"test-conductivity","var_num":435,"task_description":"Your task is to determine if metal pot is electrically conductive.","observation":"This room is called the art studio.","reward":0,"score":0,"deleted":false,"done":false}`
	sciDoor     = `{"observation":"The door is already open.","reward":3,"score":8,"done":false}`
	alfFirst    = `{"id":0,"observation":"You are in the middle of a room.\nYour task is to: look at alarmclock under the desklamp.","available_actions":["go to bed 1","go to desk 1","inventory","look"],"task_type":"look_at_obj_in_light-x/trial_y"}`
	alfDesk     = `{"observation":"On the desk 1, you see nothing.","reward":0.0,"available_actions":["go to bed 1","look"],"done":false}`
	finished    = `{"error":"The task with environment 0 has finished."}`
)

// steps plays the replies and compares the results.
func steps(t *testing.T, c Client, play []struct {
	text string
	want StepResult
}) {
	t.Helper()
	for _, p := range play {
		r, err := c.Step(context.Background(), p.text)
		if diff := cmp.Diff(p.want, r); diff != "" || err != nil {
			t.Errorf("step %q: %v\n%s", p.text, err, diff)
		}
	}
}

type played = []struct {
	text string
	want StepResult
}

func checkRequests(t *testing.T, s script, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, s.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestBabyAITranscript(t *testing.T) {
	for _, tt := range []struct {
		parser action.Parser
		sent   []string
	}{
		{action.ParserG2, []string{"go to red ball 1", ""}},
		{action.ParserG1, []string{"go to red ball 1", "turn left"}},
	} {
		t.Run(string(tt.parser), func(t *testing.T) {
			s := newScript(t, map[string][]reply{
				"POST /create": ok(`{"id":0}`),
				"POST /reset":  ok(babyaiFirst),
				"POST /step":   {{Body: babyaiWon}, {Body: finished}},
				"POST /close":  ok("false"),
			})
			o := quick(s.URL)
			o.Parser = tt.parser
			c := open(t, "babyai", o)
			ctx := context.Background()
			obs, err := c.Reset(ctx, 2)
			if err != nil || !strings.HasPrefix(obs.Text, "Your goal: go to the red ball\n") {
				t.Fatalf("%+v, %v", obs, err)
			}
			steps(t, c, played{{"Thought:\nx\n\nAction:\ngo to red ball 1", StepResult{
				Observation: "In front of you ...\n The task is completed.\nAvailable actions: []", Reward: 0.9015625, Done: true,
				Action: "go to red ball 1", Sent: true,
			}}})
			if tt.parser == action.ParserG2 {
				steps(t, c, played{{"Action: a\nAction: b", StepResult{Observation: action.TwoActions}}})
			}
			_, err = c.Step(ctx, "turn left")
			if e := asError(t, err, KindEnvironment); e.Words != "The task with environment 0 has finished." {
				t.Error(e)
			}
			if err := c.Close(ctx); err != nil {
				t.Error(err)
			}
			checkRequests(t, s, "POST /create", `POST /reset {"data_idx":2,"id":0}`, `POST /step {"action":"`+tt.sent[0]+`","id":0}`,
				`POST /step {"action":"`+tt.sent[1]+`","id":0}`, `POST /close {"id":0}`)
		})
	}
}

// TestBabyAIScore checks that an unbounded score is clipped to the range used for training.
func TestBabyAIScore(t *testing.T) {
	for score, want := range map[string]float64{"0": 0, "0.9": 0.9, "1.9015625": 1, "-0.3": -0.3, "-17.25": -1, "3": 1} {
		s := newScript(t, map[string][]reply{
			"POST /create": ok(`{"id":0}`),
			"POST /step":   ok(`{"observation":"x","reward":0.5,"score":` + score + `,"done":false}`),
		})
		r, err := open(t, "babyai", quick(s.URL)).Step(context.Background(), "Action: drop")
		if err != nil || r.Reward != want {
			t.Errorf("score %s gives reward %v, %v", score, r.Reward, err)
		}
	}
}

func TestSciworldTranscript(t *testing.T) {
	door := StepResult{Observation: "The door is already open.", Reward: 8, Action: "open door to hallway", Sent: true}
	first := "Your task is to determine if metal pot is electrically conductive.\nThis room is called the art studio."
	for _, tt := range []struct {
		name string
		o    Options
		play played
	}{
		{"g1", Options{Parser: action.ParserG1}, played{{"Action: open door to hallway\nAction: x", door}}},
		{"g2", Options{Parser: action.ParserG2}, played{{"Action: x\nAction: open door to hallway", door}}},
		{"function calling", Options{ActionFormat: action.FunctionCalling}, played{
			{"open door", StepResult{Observation: action.Invalid + first}},
			{fc("open", `{"obj":"door to hallway"}`), door},
			{fc("lookin", `{"obj":"box"}`), StepResult{Observation: action.Invalid + door.Observation}},
		}},
		{"code as action", Options{ActionFormat: action.CodeAsAction}, played{
			{"```python\nopen('door to hallway')\n```", door},
			{"x=1", StepResult{Observation: action.Invalid + door.Observation}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t, map[string][]reply{
				"POST /create": ok(`{"id":0}`),
				"POST /reset":  ok(sciFirst),
				"POST /step":   {{Body: sciDoor}, {Body: `{"observation":"Wrong.","reward":-108,"score":-100,"done":true}`}},
				"POST /close":  {{Body: "true"}, {Status: 500, Body: "Internal Server Error"}},
			})
			o := quick(s.URL)
			o.Parser, o.ActionFormat = tt.o.Parser, tt.o.ActionFormat
			c := open(t, "sciworld", o)
			obs, err := c.Reset(context.Background(), 1871)
			if err != nil || obs.Text != first {
				t.Fatalf("%+v, %v", obs, err)
			}
			steps(t, c, tt.play)
			if o.ActionFormat == "" {
				steps(t, c, played{{"Action: focus on pot", StepResult{Observation: "Wrong.", Reward: -100, Done: true, Action: "focus on pot", Sent: true}}})
			}
			if err := c.Close(context.Background()); err != nil {
				t.Error(err)
			}
			want := []string{"POST /create", `POST /reset {"data_idx":1871,"id":0}`, `POST /step {"action":"open door to hallway","id":0}`}
			if o.ActionFormat == "" {
				want = append(want, `POST /step {"action":"focus on pot","id":0}`)
			}
			checkRequests(t, s, append(want, `POST /close {"id":0}`)...)
		})
	}
}

func TestAlfworldTranscript(t *testing.T) {
	desk := StepResult{Observation: "On the desk 1, you see nothing.", Action: "go to desk 1", Sent: true}
	first := "You are in the middle of a room.\nYour task is to: look at alarmclock under the desklamp.\nAVAILABLE ACTIONS: go to bed 1,go to desk 1,inventory,look"
	later := action.Invalid + "On the desk 1, you see nothing.\nAVAILABLE ACTIONS: go to bed 1,look"
	for _, tt := range []struct {
		name string
		o    Options
		play played
	}{
		{"g1", Options{Parser: action.ParserG1}, played{{"go to desk 1", desk}}},
		{"g2", Options{}, played{{"Thought: t\n\nAction:\ngo to desk 1", desk}}},
		{"function calling", Options{ActionFormat: action.FunctionCalling}, played{
			{"hm", StepResult{Observation: action.Invalid + first}},
			{fc("goto", `{"recep":"desk 1"}`), desk},
			{fc("goto", `{"recep":"desk 1","obj":"x"}`), StepResult{Observation: later}},
		}},
		{"code as action", Options{ActionFormat: action.CodeAsAction}, played{
			{`goto("desk 1")`, desk}, {"x=1", StepResult{Observation: later}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t, map[string][]reply{
				"POST /create": ok(`{"id":0}`),
				"POST /reset":  ok(alfFirst),
				"POST /step":   {{Body: alfDesk}, {Body: finished}},
			})
			o := quick(s.URL)
			o.Parser, o.ActionFormat = tt.o.Parser, tt.o.ActionFormat
			c := open(t, "alfworld", o)
			obs, err := c.Reset(context.Background(), 4)
			if err != nil || obs.Text != first {
				t.Fatalf("%+v, %v", obs, err)
			}
			steps(t, c, tt.play)
			if err := c.Close(context.Background()); err != nil { // the server has no /close
				t.Error(err)
			}
			checkRequests(t, s, "POST /create", `POST /reset {"game":4,"world_type":"Text","id":0}`, `POST /step {"action":"go to desk 1","id":0}`,
				`POST /close {"id":0}`)
		})
	}
}

// TestObjectErrors checks the keys that replies of these servers must have, and malformed replies in which upstream
// would see a missing key.
func TestObjectErrors(t *testing.T) {
	for _, tt := range []struct {
		name, env   string
		reset, step reply
		kind        Kind
		words       string // part of the error of the reset, or of the step if the reset succeeds
		stepFails   bool
	}{
		{name: "E1 deleted", env: "sciworld", reset: reply{Body: `{"error":"The task with environment 0 has been deleted."}`}, kind: KindEnvironment, words: "deleted"},
		{name: "E1 minigrid", env: "babyai", reset: reply{Body: "{\"error\":\"Environment version v0 for `BabyAI-GoToObjS6` is deprecated.\"}"}, kind: KindEnvironment, words: "deprecated"},
		{name: "E1 world type", env: "alfworld", reset: reply{Body: `{"error":"world_type must be one of \"Text\", \"Embody\" and \"Hybrid\""}`}, kind: KindEnvironment, words: "world_type"},
		{name: "E3", env: "alfworld", reset: reply{Status: 422, Body: `{"detail":[{"loc":["body","game"],"msg":"field required","type":"value_error.missing"}]}`}, kind: KindValidation, words: "field required"},
		{name: "E4", env: "babyai", reset: reply{Status: 404, Body: `{"detail":"Not Found"}`}, kind: KindRouting, words: "Not Found"},
		{name: "no description", env: "sciworld", reset: reply{Body: `{"observation":"x"}`}, kind: KindMalformed, words: "task_description"},
		{name: "no actions", env: "alfworld", reset: reply{Body: `{"observation":"x"}`}, kind: KindMalformed, words: "available_actions"},
		{name: "actions null", env: "alfworld", reset: reply{Body: `{"observation":"x","available_actions":null}`}, kind: KindMalformed, words: "available_actions"},
		{name: "actions text", env: "alfworld", reset: reply{Body: `{"observation":"x","available_actions":"a"}`}, kind: KindMalformed, words: "available_actions"},
		{name: "a bare string", env: "babyai", reset: reply{Body: `"x"`}, kind: KindMalformed},
		{name: "null", env: "babyai", reset: reply{Body: "null"}, kind: KindMalformed},
		{name: "E1 finished", env: "alfworld", step: reply{Body: finished}, kind: KindEnvironment, words: "finished", stepFails: true},
		{name: "E1 unset", env: "sciworld", step: reply{Body: `{"error":"'ScienceWorldEnv' object has no attribute 'variationIdx'"}`}, kind: KindEnvironment, words: "variationIdx", stepFails: true},
		{name: "E1 step before reset", env: "babyai", step: reply{Body: `{"error":"0"}`}, kind: KindEnvironment, words: "0", stepFails: true},
		{name: "no score", env: "babyai", step: reply{Body: `{"observation":"x","reward":1,"done":true}`}, kind: KindMalformed, words: "score", stepFails: true},
		{name: "no score in sciworld", env: "sciworld", step: reply{Body: `{"observation":"x","reward":1,"done":true}`}, kind: KindMalformed, words: "score", stepFails: true},
		{name: "step without actions", env: "alfworld", step: reply{Body: `{"observation":"x","reward":0.0,"done":false}`}, kind: KindMalformed, words: "available_actions", stepFails: true},
		{name: "E2", env: "sciworld", step: reply{Status: 500, Body: "Internal Server Error"}, kind: KindServer, words: "Internal", stepFails: true},
		{name: "503 is not repeated", env: "alfworld", step: reply{Status: 503}, kind: KindServer, stepFails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := map[string]string{"babyai": babyaiFirst, "sciworld": sciFirst, "alfworld": alfFirst}[tt.env]
			if tt.stepFails {
				tt.reset = reply{Body: first}
			}
			s := newScript(t, map[string][]reply{"POST /create": ok(`{"id":0}`), "POST /reset": {tt.reset}, "POST /step": {tt.step}})
			c := open(t, tt.env, quick(s.URL))
			obs, err := c.Reset(context.Background(), 0)
			if tt.stepFails {
				if err != nil {
					t.Fatal(err)
				}
				var r StepResult
				if r, err = c.Step(context.Background(), "Action: x"); r != (StepResult{Action: "x", Sent: true}) {
					t.Errorf("result %+v", r)
				}
				if n := s.count("POST /step"); n != 1 {
					t.Errorf("%d steps", n)
				}
			}
			e := asError(t, err, tt.kind)
			if !strings.Contains(e.Error(), tt.words) {
				t.Errorf("%v does not contain %q", e, tt.words)
			}
			if obs.Text != "" && !tt.stepFails {
				t.Errorf("a failed reset returned observation %q", obs.Text)
			}
		})
	}
}

func TestClosedEndpoints(t *testing.T) {
	first := map[string]map[string][]reply{
		"babyai": {"POST /create": ok(`{"id":0}`)}, "sciworld": {"POST /create": ok(`{"id":0}`)}, "alfworld": {"POST /create": ok(`{"id":0}`)},
		"textcraft": {"POST /create": ok(`{"id":0}`)}, "webshop": {"POST /create": ok("5")}, "searchqa": {"POST /create": ok("5")},
		"webarena": {"POST /create": ok(`{"env_idx":5}`)}, "sqlgym": {"POST /create": ok("5")}, "weather": {"POST /create": ok("5")},
		"gaia": {"POST /create": ok(`"u-1"`)}, "maze": {"POST /maze/create": ok(`{"id":0}`)},
	}
	for name, replies := range first {
		silent := name == "sqlgym" || name == "weather" || name == "gaia" || name == "maze"
		for what, tt := range map[string]struct {
			reply reply
			fails bool
		}{
			"true": {reply{Body: "true"}, false}, "false": {reply{Body: "false"}, false},
			"404": {reply{Status: 404, Body: `{"detail":"Not Found"}`}, false}, "405": {reply{Status: 405, Body: `{"detail":"Method Not Allowed"}`}, false},
			"500": {reply{Status: 500, Body: "Internal Server Error"}, true}, "error object": {reply{Body: `{"error":"no"}`}, true},
			"bare": {reply{Body: "closed"}, name != "webarena"}, "object": {reply{Body: `{"closed":"closed"}`}, false},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				replies := map[string][]reply{"POST /create": replies["POST /create"], "POST /maze/create": replies["POST /maze/create"], "POST /close": {tt.reply}}
				s := newScript(t, replies)
				c := open(t, name, quick(s.URL))
				if err := c.Close(context.Background()); (err != nil) != (tt.fails && !silent) {
					t.Error(err)
				}
				if n := s.count("POST /close"); silent != (n == 0) {
					t.Errorf("%d requests to /close", n)
				}
				if _, err := c.Reset(context.Background(), 0); !errors.Is(err, ErrClosed) {
					t.Errorf("reset after close: %v", err)
				}
				if err := c.Close(context.Background()); err != nil {
					t.Errorf("second close: %v", err)
				}
			})
		}
	}
}

func TestActionFormats(t *testing.T) {
	for _, tt := range []struct {
		env    string
		parser action.Parser
		format action.Format
		bad    string
	}{
		{"webshop", "", action.FunctionCalling, ""},
		{"alfworld", action.ParserG2, action.CodeAsAction, ""},
		{"sciworld", action.ParserG1, action.React, ""},
		{"sciworld", action.ParserG1, action.CodeAsAction, `parser "g1" does not support the action format "code_as_action"`},
		{"maze", "", action.FunctionCalling, `maze does not support the action format "function_calling": only alfworld, sciworld, webshop do`},
		{"textcraft", "", action.CodeAsAction, "does not support"},
		{"wordle", "", action.CodeAsAction, "does not support"},
		{"babyai", "", action.CodeAsAction, "does not support"},
		{"sqlgym", "", action.CodeAsAction, "does not support"},
		{"searchqa", "", action.CodeAsAction, "does not support"},
		{"gaia", "", action.CodeAsAction, "does not support"},
		{"todo", "", action.CodeAsAction, "does not support"},
		{"webarena", "", action.CodeAsAction, "does not support"},
		{"webshop", "", "default", `unknown action format "default"`},
		{"alfworld", "g3", "", `unknown parser "g3"`},
		{"gaia", "g3", "", `unknown parser "g3"`},
	} {
		o := Options{BaseURL: "http://127.0.0.1:1", Attempts: 1, Parser: tt.parser, ActionFormat: tt.format}
		_, err := spec(tt.env).New(context.Background(), o)
		invalid := o.Validate(spec(tt.env))
		if tt.bad == "" { // valid options; no server listens
			asError(t, err, KindConnection)
			if invalid != nil {
				t.Errorf("%s %s: Validate: %v", tt.env, tt.format, invalid)
			}
			continue
		}
		for _, err := range []error{err, invalid} {
			if err == nil || !strings.Contains(err.Error(), tt.bad) {
				t.Errorf("%s %s %s: %v, want %q", tt.env, tt.parser, tt.format, err, tt.bad)
			}
		}
	}
}
