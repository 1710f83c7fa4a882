package env

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/env/action"
)

// These tests use the transcripts of the protocol, sections 5.1, 5.5 and 5.6.

func TestMazeTranscript(t *testing.T) {
	s := newScript(t, map[string][]reply{
		"POST /maze/create": ok(`{"id":0}`),
		"POST /maze/reset":  ok(mazeAt),
		"POST /maze/step":   {{Body: mazeStay}, {Body: mazeWon}, {Body: `{"error":"The task with environment 0 has finished."}`}},
	})
	c := open(t, "maze", quick(s.URL+"/maze/"))
	ctx := context.Background()
	obs, err := c.Reset(ctx, 18)
	if err != nil || obs.Text != "The goal is at position 8, 6. Your current position is at position 7, 6. There are walls to your right, to your left." {
		t.Fatalf("%+v, %v", obs, err)
	}
	r, err := c.Step(ctx, "Thought:\nhm\n\nAction:\nfly")
	if err != nil || r != (StepResult{Observation: obs.Text, Action: "fly", Sent: true}) {
		t.Fatalf("%+v, %v", r, err)
	}
	r, err = c.Step(ctx, "Thought:\nhm\n\nAction:\nmove down")
	if err != nil || r != (StepResult{Observation: "Success\n", Reward: 1, Done: true, Action: "move down", Sent: true}) {
		t.Fatalf("%+v, %v", r, err)
	}
	_, err = c.Step(ctx, "move down")
	asError(t, err, KindEnvironment)
	if ServerFault(err) {
		t.Error("ServerFault is true for an error object")
	}
	for range 2 {
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Reset(ctx, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("reset after close: %v", err)
	}
	want := []string{
		"POST /maze/create",
		`POST /maze/reset {"game":18,"id":0}`,
		`POST /maze/step {"action":"fly","id":0}`,
		`POST /maze/step {"action":"move down","id":0}`,
		`POST /maze/step {"action":"move down","id":0}`,
	}
	if diff := cmp.Diff(want, s.Requests()); diff != "" {
		t.Error(diff)
	}
}

func TestTextcraftTranscript(t *testing.T) {
	const first = `{"id":7,"observation":"Crafting commands:\ncraft 1 emerald block using 9 emerald\n\nGoal: craft emerald block.","done":false,"reward":0}`
	for _, tt := range []struct {
		parser action.Parser
		sent   []string
	}{
		{action.ParserG2, []string{"get 9 emerald", "", "get 1 oaklog", "craft 1 emerald block using 9 emerald"}},
		{action.ParserG1, []string{"get 9 emerald", "dance", "get 1 oaklog", "y", "craft 1 emerald block using 9 emerald"}},
	} {
		t.Run(string(tt.parser), func(t *testing.T) {
			s := newScript(t, map[string][]reply{
				"POST /create": ok(first),
				"POST /reset":  ok(first),
				"POST /step":   ok(`{"observation":"Crafted 1 minecraft:emerald_block","reward":1,"done":true}`),
				"POST /close":  ok("true"),
			})
			o := quick(s.URL)
			o.Parser = tt.parser
			c := open(t, "textcraft", o)
			ctx := context.Background()
			obs, err := c.Reset(ctx, 1)
			if err != nil || !strings.HasSuffix(obs.Text, "Goal: craft emerald block.") {
				t.Fatalf("%+v, %v", obs, err)
			}
			for _, text := range []string{
				"Thought:\nx\n\nAction:\nget 9 emerald", "dance", "Action: get 1 oak_log <b>",
				"Action: x\nAction: y", "Action: craft 1 emerald block using 9 emerald",
			} {
				r, err := c.Step(ctx, text)
				if err != nil {
					t.Fatal(err)
				}
				if text == "Action: x\nAction: y" && tt.parser == action.ParserG2 {
					if r != (StepResult{Observation: action.TwoActions}) {
						t.Errorf("two actions: %+v", r)
					}
				} else if !r.Sent || !r.Done || r.Reward != 1 {
					t.Errorf("%q: %+v", text, r)
				}
			}
			if err := c.Close(ctx); err != nil {
				t.Error(err)
			}
			want := []string{
				`POST /create {"minecraft_dir":"agentenv_textcraft/","commands":null,"goal":null}`,
				`POST /reset {"data_idx":1,"id":7}`,
			}
			for _, a := range tt.sent {
				if a == "get 1 oaklog" {
					a = "get 1 oaklog b"
				}
				want = append(want, `POST /step {"action":"`+a+`","id":7}`)
			}
			want = append(want, `POST /close {"id":7}`)
			if diff := cmp.Diff(want, s.Requests()); diff != "" {
				t.Error(diff)
			}
		})
	}
	o := quick("http://127.0.0.1:1")
	o.Parser = "g3"
	if _, err := spec("textcraft").New(context.Background(), o); err == nil || !strings.Contains(err.Error(), "g3") {
		t.Errorf("parser g3: %v", err)
	}
}

func TestTextcraftClose(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply reply
		fails bool
	}{
		{"true", reply{Body: "true"}, false},
		{"false", reply{Body: "false"}, false},
		{"no such endpoint", reply{Status: 404, Body: `{"detail":"Not Found"}`}, false},
		{"not allowed", reply{Status: 405, Body: `{"detail":"Method Not Allowed"}`}, false},
		{"server error", reply{Status: 500}, true},
		{"error object", reply{Body: `{"error":"no"}`}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t, map[string][]reply{"POST /create": ok(`{"id":0}`), "POST /close": {tt.reply}})
			err := open(t, "textcraft", quick(s.URL)).Close(context.Background())
			if (err != nil) != tt.fails {
				t.Error(err)
			}
		})
	}
}

func TestWordleTranscript(t *testing.T) {
	s := newScript(t, map[string][]reply{
		"POST /wordle/create":        ok(`{"id":2}`),
		"GET /wordle/filtered_vocab": ok(`["panic","solar","shire"]`),
		"POST /wordle/reset":         ok(`{"id":2,"observation":"Let's start Wordle!"}`),
		"POST /wordle/step":          {{Body: `{"observation":"b b y b b\n","reward":0,"done":false}`}, {Body: `{"observation":"invalid word","reward":0.0,"done":false}`}},
	})
	c := open(t, "wordle", quick(s.URL))
	ctx := context.Background()
	for range 2 {
		obs, err := c.Reset(ctx, 3)
		if want := "The words you may guess:\npanic\nsolar\nshire\n\nLet's start Wordle!"; err != nil || obs.Text != want {
			t.Fatalf("%q, %v", obs.Text, err)
		}
	}
	r, err := c.Step(ctx, "Action:\np a n i c")
	if err != nil || r != (StepResult{Observation: "b b y b b\n", Action: "p a n i c", Sent: true}) {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err = c.Step(ctx, "zzzzz"); err != nil || r.Observation != "invalid word" {
		t.Fatalf("%+v, %v", r, err)
	}
	want := []string{
		"POST /wordle/create",
		"GET /wordle/filtered_vocab?id=2",
		`POST /wordle/reset {"seed":3,"id":2}`,
		`POST /wordle/reset {"seed":3,"id":2}`,
		`POST /wordle/step {"action":"p a n i c","id":2}`,
		`POST /wordle/step {"action":"zzzzz","id":2}`,
	}
	if diff := cmp.Diff(want, s.Requests()); diff != "" {
		t.Error(diff)
	}
}

// TestWordleErrors checks that the client rejects an error object as the reply to a reset, unlike upstream's client.
func TestWordleErrors(t *testing.T) {
	s := newScript(t, map[string][]reply{
		"POST /wordle/create":        ok(`{"id":0}`),
		"GET /wordle/filtered_vocab": ok(`["panic"]`),
		"POST /wordle/reset":         ok(`{"error":"The id 0 is not valid."}`),
	})
	_, err := open(t, "wordle", quick(s.URL)).Reset(context.Background(), 3)
	if e := asError(t, err, KindEnvironment); e.Words != "The id 0 is not valid." {
		t.Error(e)
	}
	for _, vocabulary := range []string{`[]`, `"panic"`, `[1]`} {
		s := newScript(t, map[string][]reply{"POST /wordle/create": ok(`{"id":0}`), "GET /wordle/filtered_vocab": ok(vocabulary)})
		_, err := spec("wordle").New(context.Background(), quick(s.URL))
		asError(t, err, KindMalformed)
	}
}

func TestRefusedIndexMakesNoRequest(t *testing.T) {
	s := newScript(t, map[string][]reply{
		"POST /maze/create": ok(`{"id":0}`), "POST /create": ok(`{"id":0}`),
		"POST /wordle/create": ok(`{"id":0}`), "GET /wordle/filtered_vocab": ok(`["panic"]`),
	})
	for name, index := range map[string]int{"maze": 25, "textcraft": -1, "wordle": -4} {
		if _, err := open(t, name, quick(s.URL)).Reset(context.Background(), index); err == nil || !strings.Contains(err.Error(), "has no task") {
			t.Errorf("%s %d: %v", name, index, err)
		}
	}
	for _, r := range s.Requests() {
		if strings.Contains(r, "reset") {
			t.Error(r)
		}
	}
}

func TestInvalidTextIsMadeValid(t *testing.T) {
	s := newScript(t, map[string][]reply{"POST /maze/create": ok(`{"id":0}`), "POST /maze/step": ok(mazeStay)})
	r, err := open(t, "maze", quick(s.URL)).Step(context.Background(), "Action: a\xffb <é>")
	if err != nil || r.Action != "a\uFFFDb <é>" {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := s.Requests()[1]; got != "POST /maze/step {\"action\":\"a\uFFFDb <é>\",\"id\":0}" {
		t.Error(got)
	}
}
