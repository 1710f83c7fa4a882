package check_test

import (
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env/check"
)

func post(path, body, reply string) data.Exchange {
	return data.Exchange{Method: "POST", Path: path, Body: body, Status: 200, Reply: reply}
}

func get(path, reply string) data.Exchange {
	return data.Exchange{Method: "GET", Path: path, Status: 200, Reply: reply}
}

// TestExchangeGood checks requests of AgentGym's clients with the replies of its servers.
func TestExchangeGood(t *testing.T) {
	for _, c := range []struct {
		env, call string
		x         data.Exchange
	}{
		{"textcraft", "create", post("/create", `{"minecraft_dir":"agentenv_textcraft/","commands":null,"goal":null}`, `{"id":0,"observation":"Crafting commands:\n\n\nGoal: craft emerald block.","done":false,"reward":0}`)},
		{"textcraft", "step", post("/step", `{"action":"","id":0}`, `{"observation":"Could not execute ","reward":0,"done":false}`)},
		{"textcraft", "close", post("/close", `{"id":0}`, `true`)},
		{"textcraft", "close", data.Exchange{Method: "POST", Path: "/close", Body: `{"id":0}`, Status: 404, Reply: `{"detail":"Not Found"}`}},
		{"babyai", "create", post("/create", "", `{"id":3}`)},
		{"babyai", "reset", post("/reset", `{"data_idx":2,"id":3}`, `{"observation":"Your goal: go","reward":0,"score":0,"deleted":false,"done":false}`)},
		{"babyai", "step", post("/step", `{"action":"turn left","id":3}`, `{"observation":"x","reward":0.9015625,"score":0.9015625,"done":true}`)},
		{"maze", "reset", post("/maze/reset", `{"game":18,"id":0}`, `{"observation":"The goal is at position 8, 6."}`)},
		{"maze", "step", post("/maze/step", `{"action":"move up","id":0}`, `{"observation":"Failure\n","reward":-1.0,"done":true}`)},
		{"wordle", "observe", get("/wordle/filtered_vocab?id=0", `["panic","solar"]`)},
		{"sqlgym", "create", post("/create", "", `238663`)},
		{"sqlgym", "reset", post("/reset", `{"item_id":9428,"env_idx":238663}`, `["shop contains tables such as item.\n\nWhat?",null]`)},
		{"sqlgym", "observe", get("/observation?env_idx=238663", `"shop contains tables such as item.\n\nWhat?"`)},
		{"sqlgym", "step", post("/step", `{"action":"SELECT 1","env_idx":238663}`, `{"state":"[(1,)]","reward":0.0,"done":true,"info":{"ground_truth":"SELECT 2"}}`)},
		{"sqlgym", "step", data.Exchange{Method: "POST", Path: "/step", Body: `{"action":"SELECT 1","env_idx":1}`, Status: 503, Reply: "busy"}},
		{"weather", "create", post("/create", `{"id":0}`, `0`)},
		{"weather", "reset", post("/reset", `{"id":3,"env_idx":0}`, `"Now new trial starts."`)},
	} {
		if call, fault := check.Exchange(c.env, c.x); call != c.call || fault != "" {
			t.Errorf("%s %s %s: %q, %q", c.env, c.x.Method, c.x.Path, call, fault)
		}
	}
}

func TestExchangeFaults(t *testing.T) {
	step := func(reply string) data.Exchange { return post("/step", `{"action":"a","id":0}`, reply) }
	for _, c := range []struct {
		name, env string
		x         data.Exchange
		want      string
	}{
		{"no such environment", "chess", step(`{}`), "chess"},
		{"no such call", "textcraft", get("/goal?id=0", `""`), "does not send this request"},
		{"without the suffix", "maze", step(`{"observation":"","reward":0,"done":false}`), "does not send this request"},
		{"another method", "textcraft", get("/step", `{}`), "does not send this request"},
		{"no reply", "textcraft", data.Exchange{Method: "POST", Path: "/step", Body: `{"action":"a","id":0}`, Err: "connection reset"}, "connection reset"},
		{"status", "textcraft", data.Exchange{Method: "POST", Path: "/step", Body: `{"action":"a","id":0}`, Status: 500, Reply: "Internal Server Error"}, "status 500: Internal Server Error"},
		{"busy, but the client does not retry", "weather", data.Exchange{Method: "POST", Path: "/step", Body: `{"action":"a","env_idx":0}`, Status: 503}, "status 503"},
		{"error object", "textcraft", step(`{"error":"The id 0 is not valid."}`), "The id 0 is not valid."},
		{"invalid JSON", "textcraft", step(`<html>`), "invalid JSON"},
		{"missing key", "textcraft", step(`{"observation":"","reward":0}`), `no key "done"`},
		{"other type", "textcraft", step(`{"observation":"","reward":"0","done":false}`), `"reward" is`},
		{"reward out of range", "textcraft", step(`{"observation":"","reward":2,"done":false}`), "reward 2, want 0 to 1"},
		{"body of another environment", "textcraft", post("/reset", `{"item_id":1,"env_idx":0}`, `{}`), `the request: the body has no key "data_idx"`},
		{"body where none is sent", "babyai", post("/create", `{}`, `{"id":0}`), "AgentGym's client sends none"},
		{"body is not JSON", "textcraft", post("/close", `{`, `true`), "is invalid JSON"},
		{"no instance", "sqlgym", get("/observation", `""`), "does not give the instance as env_idx"},
	} {
		if _, fault := check.Exchange(c.env, c.x); !strings.Contains(fault, c.want) {
			t.Errorf("%s: %q, want %q", c.name, fault, c.want)
		}
	}
}

func TestPlayed(t *testing.T) {
	text, done, err := check.Played("sqlgym", `{"state":"[]","reward":1.0,"done":true,"info":{"ground_truth":"x"}}`)
	if text != "[]" || !done || err != nil {
		t.Errorf("%q, %t, %v", text, done, err)
	}
	for env, reply := range map[string]string{"sqlgym": `{"observation":"","reward":1.0,"done":true}`, "maze": `{`, "chess": `{}`} {
		if _, _, err := check.Played(env, reply); err == nil {
			t.Errorf("%s: %s was accepted as a step", env, reply)
		}
	}
}
