package env

import (
	"context"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/env/action"
)

// These tests use the transcripts of the protocol, sections 5.7 to 5.12, for servers that call an instance "env_idx".

const (
	shopPage   = "WebShop [SEP] Instruction: [SEP] Find me men's shorts with elastic waist, and price lower than 50.00 dollars [SEP] Search"
	shopFound  = `{"state":"Instruction: [SEP] Find me men's shorts [SEP] Back to Search [SEP] Page 1 (Total results: 50)","reward":0.0,"done":false,"info":null}`
	shopBought = `{"state":"Thank you for shopping with us!","reward":0.75,"done":true,"info":null}`
	sqlSchema  = `"shop contains tables such as item. Table item has columns such as id, name, price. id is the primary key.\n\nWhat is the cheapest item?"`
	toolGoal   = `"Now new trial starts.\nYou should perform actions to accomplish the goal: What was the average temperature yesterday?\nGive me one action."`
)

func TestWebshopTranscript(t *testing.T) {
	search := StepResult{Observation: "Instruction: [SEP] Find me men's shorts [SEP] Back to Search [SEP] Page 1 (Total results: 50)", Action: "search[men's shorts]", Sent: true}
	buy := StepResult{Observation: "Thank you for shopping with us!", Reward: 0.75, Done: true, Action: "click[Buy Now]", Sent: true}
	for _, tt := range []struct {
		name  string
		o     Options
		play  played
		again bool // whether the page is requested after an invalid action
	}{
		{"g1", Options{Parser: action.ParserG1}, played{{"Action: search[men's shorts]\nAction: y", search}, {"click[Buy Now]", buy}}, false},
		{"g2", Options{}, played{{"Action: x\nAction: search[men's shorts]", search}, {"click[Buy Now]", buy}}, false},
		{"function calling", Options{ActionFormat: action.FunctionCalling}, played{
			{"buy it", StepResult{Observation: action.Invalid + shopPage}},
			{fc("search", `{"keywords":"men's shorts"}`), search}, {fc("click", `{"item":"Buy Now"}`), buy},
		}, true},
		{"code as action", Options{ActionFormat: action.CodeAsAction}, played{
			{"buy it", StepResult{Observation: action.Invalid + shopPage}},
			{`search("men's shorts")`, search}, {"```python\nclick('Buy Now')\n```", buy},
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t, map[string][]reply{
				"POST /create":     ok("23180412"),
				"POST /reset":      ok(`["` + shopPage + `",null]`),
				"GET /observation": ok(`"` + shopPage + `"`),
				"POST /step":       {{Body: shopFound}, {Body: shopBought}},
			})
			o := quick(s.URL)
			o.Parser, o.ActionFormat = tt.o.Parser, tt.o.ActionFormat
			c := open(t, "webshop", o)
			obs, err := c.Reset(context.Background(), 6)
			if err != nil || obs.Text != shopPage {
				t.Fatalf("%+v, %v", obs, err)
			}
			steps(t, c, tt.play)
			if err := c.Close(context.Background()); err != nil { // the server has no /close
				t.Error(err)
			}
			want := []string{"POST /create", `POST /reset {"session_id":6,"env_idx":23180412}`, "GET /observation?env_idx=23180412"}
			if tt.again {
				want = append(want, "GET /observation?env_idx=23180412")
			}
			checkRequests(t, s, append(want, `POST /step {"action":"search[men's shorts]","env_idx":23180412}`,
				`POST /step {"action":"click[Buy Now]","env_idx":23180412}`, `POST /close {"env_idx":23180412}`)...)
		})
	}
}

func TestSQLGymTranscript(t *testing.T) {
	for _, parser := range []action.Parser{action.ParserG1, action.ParserG2} {
		s := newScript(t, map[string][]reply{
			"POST /create":     ok("238663"),
			"POST /reset":      ok("[" + sqlSchema + ",null]"),
			"GET /observation": ok(sqlSchema),
			"POST /step": {
				{Body: `{"state":"[('milk',)]","reward":1.0,"done":true,"info":{"ground_truth":"SELECT name FROM item ORDER BY price LIMIT 1"}}`},
				{Body: `{"state":"no such column: nme","reward":0.0,"done":true,"info":{"ground_truth":"x"}}`},
			},
		})
		o := quick(s.URL)
		o.Parser = parser
		c := open(t, "sqlgym", o)
		obs, err := c.Reset(context.Background(), 9428)
		if err != nil || !strings.HasSuffix(obs.Text, "\n\nWhat is the cheapest item?") {
			t.Fatalf("%+v, %v", obs, err)
		}
		steps(t, c, played{
			{"Thought: x\n\nAction: ```sql\nSELECT name FROM item ORDER BY price LIMIT 1\n```", StepResult{
				Observation: "[('milk',)]", Reward: 1, Done: true, Action: "SELECT name FROM item ORDER BY price LIMIT 1", Sent: true,
			}},
			{"SELECT nme FROM item", StepResult{Observation: "no such column: nme", Done: true, Action: "SELECT nme FROM item", Sent: true}},
		})
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		checkRequests(t, s, "POST /create", `POST /reset {"item_id":9428,"env_idx":238663}`, "GET /observation?env_idx=238663",
			`POST /step {"action":"SELECT name FROM item ORDER BY price LIMIT 1","env_idx":238663}`,
			`POST /step {"action":"SELECT nme FROM item","env_idx":238663}`)
	}
}

// TestToolTranscript checks that the five tool servers receive the reply unchanged, under both generations of the
// client, and that their error messages are observations.
func TestToolTranscript(t *testing.T) {
	const format = "Format error, please response in the format of  \"Action: [your action] with Action Input: [your action input]"
	for _, name := range []string{"weather", "movie", "academia", "todo", "sheet"} {
		for _, parser := range []action.Parser{action.ParserG1, action.ParserG2} {
			t.Run(name+" "+string(parser), func(t *testing.T) {
				s := newScript(t, map[string][]reply{
					"POST /create":     ok("3"),
					"POST /reset":      ok(toolGoal),
					"GET /observation": ok(toolGoal),
					"POST /step": {
						{Body: `{"observation":"Observation: 2023-06-15\nGive me one action.","reward":0.0,"done":false}`},
						{Body: `{"observation":"Format error, please response in the format of  \"Action: [your action] with Action Input: [your action input]","reward":0.25,"done":false}`},
						{Body: `{"observation":"Observation: 18.5\nGive me one action.","reward":1,"done":true}`},
					},
				})
				o := quick(s.URL)
				o.Parser = parser
				c := open(t, name, o)
				obs, err := c.Reset(context.Background(), 0)
				if err != nil || !strings.HasSuffix(obs.Text, "\nGive me one action.") {
					t.Fatalf("%+v, %v", obs, err)
				}
				const date, badFormat, finish = "Thought: x\n\nAction: get_user_current_date with Action Input: {}", "Action: foo\nAction Input: {}\n\n", `Action: finish with Action Input: {"answer": 18.5}`
				steps(t, c, played{
					{date, StepResult{Observation: "Observation: 2023-06-15\nGive me one action.", Action: date, Sent: true}},
					{badFormat, StepResult{Observation: format, Reward: 0.25, Action: badFormat, Sent: true}},
					{finish, StepResult{Observation: "Observation: 18.5\nGive me one action.", Reward: 1, Done: true, Action: finish, Sent: true}},
				})
				if err := c.Close(context.Background()); err != nil {
					t.Error(err)
				}
				checkRequests(t, s, `POST /create {"id":0}`, `POST /reset {"id":0,"env_idx":3}`, "GET /observation?env_idx=3",
					`POST /step {"action":"Thought: x\n\nAction: get_user_current_date with Action Input: {}","env_idx":3}`,
					`POST /step {"action":"Action: foo\nAction Input: {}\n\n","env_idx":3}`,
					`POST /step {"action":"Action: finish with Action Input: {\"answer\": 18.5}","env_idx":3}`)
			})
		}
	}
}

func TestSearchQATranscript(t *testing.T) {
	s := newScript(t, map[string][]reply{
		"POST /create":     ok("0"),
		"POST /reset":      ok(`"Answer the given question. Question: x?"`),
		"GET /observation": ok(`"Answer the given question. Question: x?"`),
		"POST /step": {
			{Body: `{"observation":"<information>Doc 1(Title: \"Paris\") Paris is ...</information>","reward":0.0,"done":false,"info":null}`},
			{Body: `{"observation":"Congratulations! You have answered the question correctly.","reward":1.0,"done":true,"info":null}`},
		},
		"POST /close": ok("true"),
	})
	c := open(t, "searchqa", quick(s.URL))
	obs, err := c.Reset(context.Background(), 221327)
	if err != nil || obs.Text != "Answer the given question. Question: x?" {
		t.Fatalf("%+v, %v", obs, err)
	}
	const search, answer = "<think>I need a fact</think><search>capital of France</search>", "<think>done</think><answer>Paris</answer>"
	steps(t, c, played{
		{search, StepResult{Observation: `<information>Doc 1(Title: "Paris") Paris is ...</information>`, Action: search, Sent: true}},
		{answer, StepResult{Observation: "Congratulations! You have answered the question correctly.", Reward: 1, Done: true, Action: answer, Sent: true}},
	})
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
	checkRequests(t, s, `POST /create {"id":0}`, `POST /reset {"id":221327,"env_idx":0}`, "GET /observation?env_idx=0",
		`POST /step {"action":"`+search+`","env_idx":0}`, `POST /step {"action":"`+answer+`","env_idx":0}`, `POST /close {"env_idx":0}`)
}

func TestWebarenaTranscript(t *testing.T) {
	const prompt = "OBSERVATION:\n[4] RootWebArea\nURL: http://luma.com/admin/\nOBJECTIVE: Tell me\nPREVIOUS ACTION: None"
	click := "Let's think. In summary, the next action I will perform is ```click [12]```"
	for _, parser := range []action.Parser{action.ParserG1, action.ParserG2} {
		t.Run(string(parser), func(t *testing.T) {
			s := newScript(t, map[string][]reply{
				"POST /create":     ok(`{"env_idx":0}`),
				"POST /reset":      {{Body: `{"object":"Tell me","observation":"[4] RootWebArea","sites":["shopping_admin"]}`}, {Body: `{"observation":"[4] RootWebArea"}`}},
				"GET /observation": ok(`"` + strings.ReplaceAll(prompt, "\n", `\n`) + `"`),
				"POST /step": {
					{Body: `{"info":{"fail_error":"","page":{"content":"<html>","url":"http:\/\/x"}},"observation":"OBSERVATION:\n2","reward":1.0,"terminated":false,"truncated":false}`},
					{Body: `{"info":null,"observation":"Cannot parse action from response","reward":0,"terminated":false,"truncated":false}`},
					{Body: `{"info":{},"observation":"end","reward":1.0,"terminated":true,"truncated":false}`},
				},
				"POST /close": ok("closed"),
			})
			o := quick(s.URL)
			o.Parser = parser
			c := open(t, "webarena", o)
			for range 2 { // the two versions of the server send different replies
				obs, err := c.Reset(context.Background(), 3)
				if err != nil || obs.Text != prompt {
					t.Fatalf("%+v, %v", obs, err)
				}
			}
			unfenced := StepResult{Observation: action.NoFence}
			sent := []string{}
			if parser == action.ParserG1 {
				unfenced = StepResult{Observation: "Cannot parse action from response", Action: "click [12]", Sent: true}
				sent = append(sent, `POST /step {"action":"click [12]","env_idx":0}`)
			}
			steps(t, c, played{ // a step before the end has reward 0
				{click, StepResult{Observation: "OBSERVATION:\n2", Action: click, Sent: true}},
				{"click [12]", unfenced},
			})
			if parser == action.ParserG2 {
				steps(t, c, played{{"``````", StepResult{Observation: "Cannot parse action from response", Action: "``````", Sent: true}}})
				sent = append(sent, "POST /step {\"action\":\"``````\",\"env_idx\":0}")
			}
			steps(t, c, played{{"```stop [4]```", StepResult{Observation: "end", Reward: 1, Done: true, Action: "```stop [4]```", Sent: true}}})
			if err := c.Close(context.Background()); err != nil {
				t.Error(err)
			}
			want := []string{
				"POST /create", `POST /reset {"seed":0,"idx":3,"env_idx":0}`, "GET /observation?env_idx=0",
				`POST /reset {"seed":0,"idx":3,"env_idx":0}`, "GET /observation?env_idx=0", `POST /step {"action":"` + click + `","env_idx":0}`,
			}
			want = append(want, sent...)
			checkRequests(t, s, append(want, "POST /step {\"action\":\"```stop [4]```\",\"env_idx\":0}", `POST /close {"env_idx":0}`)...)
		})
	}
}

func TestGaiaTranscript(t *testing.T) {
	s := newScript(t, map[string][]reply{
		"POST /create":     ok(`"0b6e-11 f"`), // not a UUID; checks that the id is escaped
		"POST /reset":      ok(`"New task starts.\n\nQuestion: x?\nGive me one action."`),
		"GET /observation": ok(`"New task starts.\n\nQuestion: x?\nGive me one action."`),
		"POST /step": {
			{Body: `{"observation":"Error: Error parsing action: y","reward":-0.1,"done":false,"info":{"steps_taken":1}}`},
			{Body: `{"observation":"done","reward":0.8,"done":true,"info":{"steps_taken":2}}`},
		},
	})
	c := open(t, "gaia", quick(s.URL))
	obs, err := c.Reset(context.Background(), 5)
	if err != nil || !strings.HasPrefix(obs.Text, "New task starts.") {
		t.Fatalf("%+v, %v", obs, err)
	}
	const end = "Action: terminate Action Input: 42"
	steps(t, c, played{
		{"y", StepResult{Observation: "Error: Error parsing action: y", Reward: -0.1, Action: "y", Sent: true}},
		{end, StepResult{Observation: "done", Reward: 0.8, Done: true, Action: end, Sent: true}},
	})
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
	checkRequests(t, s, `POST /create {"id":0,"dataset_type":"validation","tool_list":null}`,
		`POST /reset {"id":5,"dataset_type":"validation","env_idx":"0b6e-11 f"}`, "GET /observation?env_idx=0b6e-11+f",
		`POST /step {"action":"y","env_idx":"0b6e-11 f"}`, `POST /step {"action":"`+end+`","env_idx":"0b6e-11 f"}`)
}

// TestIndexedErrors checks every error form of these servers, and replies of other shapes.
func TestIndexedErrors(t *testing.T) {
	created := map[string]string{"webarena": `{"env_idx":0}`, "gaia": `"u"`}
	resets := map[string]string{"webshop": `["p",null]`, "sqlgym": `["p",null]`, "webarena": `{"observation":"p"}`}
	for _, tt := range []struct {
		name, env                    string
		create, reset, observe, step *reply
		kind                         Kind
		op, words                    string
	}{
		{name: "create fails", env: "todo", create: &reply{Status: 500, Body: "Internal Server Error"}, kind: KindServer, op: "create"},
		{name: "create an object", env: "webshop", create: &reply{Body: `{"id":0}`}, kind: KindMalformed, op: "create"},
		{name: "create a fraction", env: "sqlgym", create: &reply{Body: "1.5"}, kind: KindMalformed, op: "create"},
		{name: "create a string", env: "weather", create: &reply{Body: `"3"`}, kind: KindMalformed, op: "create"},
		{name: "create null", env: "searchqa", create: &reply{Body: "null"}, kind: KindMalformed, op: "create"},
		{name: "create without a body is 422", env: "searchqa", create: &reply{Status: 422, Body: `{"detail":[{"type":"missing","loc":["body"],"msg":"Field required","input":null}]}`}, kind: KindValidation, op: "create", words: "Field required"},
		{name: "create a number", env: "webarena", create: &reply{Body: "0"}, kind: KindMalformed, op: "create"},
		{name: "create without the key", env: "webarena", create: &reply{Body: `{"id":0}`}, kind: KindMalformed, op: "create", words: "env_idx"},
		{name: "create a number for gaia", env: "gaia", create: &reply{Body: "0"}, kind: KindMalformed, op: "create"},
		{name: "create an empty id", env: "gaia", create: &reply{Body: `""`}, kind: KindMalformed, op: "create", words: "empty"},
		{name: "webarena HTML", env: "webarena", create: &reply{Status: 500, Body: "<html>"}, kind: KindServer, op: "create", words: "<html>"},

		{name: "out of range", env: "webshop", reset: &reply{Status: 500, Body: "Internal Server Error"}, kind: KindServer, op: "reset"},
		{name: "reset a string", env: "webshop", reset: &reply{Body: `"p"`}, kind: KindMalformed, op: "reset"},
		{name: "reset an empty array", env: "sqlgym", reset: &reply{Body: "[]"}, kind: KindMalformed, op: "reset", words: "array"},
		{name: "reset an array of null", env: "sqlgym", reset: &reply{Body: "[null,null]"}, kind: KindMalformed, op: "reset", words: "array"},
		{name: "reset an array", env: "movie", reset: &reply{Body: `["p",null]`}, kind: KindMalformed, op: "reset"},
		{name: "reset null", env: "searchqa", reset: &reply{Body: "null"}, kind: KindMalformed, op: "reset"},
		{name: "reset an object", env: "gaia", reset: &reply{Body: `{"observation":"p"}`}, kind: KindMalformed, op: "reset"},
		{name: "unknown id", env: "gaia", reset: &reply{Status: 404, Body: `{"detail":"Environment with ID u does not exist"}`}, kind: KindRouting, op: "reset", words: "does not exist"},
		{name: "TimeoutError", env: "webarena", reset: &reply{Body: `{"object":"o","observation":"TimeoutError","sites":"Error"}`}, kind: KindEnvironment, op: "reset", words: "did not load in time"},
		{name: "reset without a page", env: "webarena", reset: &reply{Body: `{"object":"o"}`}, kind: KindMalformed, op: "reset", words: "observation"},

		{name: "observation before reset", env: "sqlgym", observe: &reply{Status: 500, Body: "Internal Server Error"}, kind: KindServer, op: "observe"},
		{name: "observation an object", env: "academia", observe: &reply{Body: `{"observation":"x"}`}, kind: KindMalformed, op: "observe"},
		{name: "observation a number", env: "sheet", observe: &reply{Body: "3"}, kind: KindMalformed, op: "observe"},

		{name: "step fails", env: "searchqa", step: &reply{Status: 500, Body: "Internal Server Error"}, kind: KindServer, op: "step"},
		{name: "503 is not repeated", env: "todo", step: &reply{Status: 503}, kind: KindServer, op: "step"},
		{name: "503 is not repeated in gaia", env: "gaia", step: &reply{Status: 503}, kind: KindServer, op: "step"},
		{name: "500 is not repeated", env: "webshop", step: &reply{Status: 500}, kind: KindServer, op: "step"},
		{name: "a lost reply is not repeated", env: "sqlgym", step: &reply{Drop: true}, kind: KindConnection, op: "step"},
		{name: "no state", env: "webshop", step: &reply{Body: `{"observation":"x","reward":0.0,"done":false}`}, kind: KindMalformed, op: "step", words: "state"},
		{name: "no terminated", env: "webarena", step: &reply{Body: `{"observation":"x","reward":1.0,"done":false}`}, kind: KindMalformed, op: "step", words: "terminated"},
		{name: "reward null", env: "weather", step: &reply{Body: `{"observation":"x","reward":null,"done":false}`}, kind: KindMalformed, op: "step", words: "reward"},
		{name: "E1", env: "gaia", step: &reply{Body: `{"error":"no"}`}, kind: KindEnvironment, op: "step", words: "no"},
		{name: "E4", env: "movie", step: &reply{Status: 405, Body: `{"detail":"Method Not Allowed"}`}, kind: KindRouting, op: "step", words: "Not Allowed"},
	} {
		t.Run(tt.env+" "+tt.name, func(t *testing.T) {
			pick := func(r *reply, table map[string]string, usual string) []reply {
				if r != nil {
					return []reply{*r}
				}
				if b, there := table[tt.env]; there {
					usual = b
				}
				return ok(usual)
			}
			s := newScript(t, map[string][]reply{
				"POST /create": pick(tt.create, created, "0"), "POST /reset": pick(tt.reset, resets, `"p"`),
				"GET /observation": pick(tt.observe, nil, `"p"`), "POST /step": pick(tt.step, nil, ""),
			})
			ctx := context.Background()
			c, err := spec(tt.env).New(ctx, quick(s.URL))
			if err == nil {
				_, err = c.Reset(ctx, 0)
			} else if c != nil {
				t.Error("New returned a client and an error")
			}
			if err == nil {
				_, err = c.Step(ctx, "```sql\nAction: search[x] ```")
				if n := s.count("POST /step"); n != 1 {
					t.Errorf("%d steps", n)
				}
			}
			e := asError(t, err, tt.kind)
			if e.Op != tt.op || !strings.Contains(e.Error(), tt.words) {
				t.Errorf("%v, want %s and %q", e, tt.op, tt.words)
			}
		})
	}
}

// TestStepAgainAfter503 checks that the client sends a step to webshop and sqlgym up to five times, because these
// servers reply 503 before they execute it.
func TestStepAgainAfter503(t *testing.T) {
	for _, name := range []string{"webshop", "sqlgym"} {
		busy := reply{Status: 503, Body: "busy"}
		s := newScript(t, map[string][]reply{
			"POST /create": ok("1"),
			"POST /step":   {busy, busy, busy, busy, {Body: shopBought}, busy},
		})
		c := open(t, name, quick(s.URL))
		r, err := c.Step(context.Background(), "Action: click[Buy Now]")
		if err != nil || r.Reward != 0.75 || !r.Done || s.count("POST /step") != 5 {
			t.Errorf("%s: %+v, %v after %d tries", name, r, err, s.count("POST /step"))
		}
		_, err = c.Step(context.Background(), "Action: click[Buy Now]")
		asError(t, err, KindServer)
		if n := s.count("POST /step"); n != 10 {
			t.Errorf("%s: %d tries", name, n-5)
		}
	}
}

// TestInvalidActionWithoutAPage checks that the step fails if the page cannot be requested after an invalid action.
func TestInvalidActionWithoutAPage(t *testing.T) {
	s := newScript(t, map[string][]reply{"POST /create": ok("1"), "GET /observation": {{Status: 500}}})
	o := quick(s.URL)
	o.ActionFormat = action.FunctionCalling
	r, err := open(t, "webshop", o).Step(context.Background(), "hm")
	if e := asError(t, err, KindServer); e.Op != "observe" || r != (StepResult{}) {
		t.Errorf("%+v, %v", r, e)
	}
}
