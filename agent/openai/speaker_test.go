package openai

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/agent/text"
	"github.com/openmanus/openmanus/data"
)

func TestSpeaker(t *testing.T) {
	request := text.Request{
		Key:      engine.Key{Seed: 1, Task: "maze_2", Sample: 3},
		Messages: []data.Message{{Role: "user", Content: "u"}},
		Params:   engine.Params{MaxNew: 50, Temperature: 0.7, TopP: 1, StopStrings: []string{"</act>"}},
	}
	tests := []struct {
		name    string
		answer  openaitest.Answer
		most    int // Speaker.MaxContext
		context int // tokens before the reply
		want    text.Reply
		kind    Kind
		limit   any // requested max_tokens; nil: no request
	}{
		{"complete", openaitest.Answer{Text: "go</act>", Tokens: 9}, 0, 0, text.Reply{Text: "go</act>", Stop: engine.StopEOS, Context: 9}, "", 50.0},
		{"length", openaitest.Answer{Text: "go", Finish: "length"}, 0, 0, text.Reply{Text: "go", Stop: engine.StopLength}, "", 50.0},
		{"the endpoint reports a full context", openaitest.Answer{Status: 400, Body: `{"error":{"code":"context_length_exceeded"}}`}, 0, 40, text.Reply{Stop: engine.StopContext, Context: 40}, "", 50.0},
		{"fits", openaitest.Answer{Text: "go", Tokens: 60}, 60, 20, text.Reply{Text: "go", Stop: engine.StopEOS, Context: 60}, "", 40.0},
		{"full before", openaitest.Answer{}, 60, 60, text.Reply{Stop: engine.StopContext, Context: 60}, "", nil},
		{"full after", openaitest.Answer{Text: "go", Tokens: 61}, 60, 0, text.Reply{Stop: engine.StopContext}, "", 50.0},
		{"cut by the limit", openaitest.Answer{Text: "go", Finish: "length", Tokens: 60}, 60, 50, text.Reply{Stop: engine.StopContext, Context: 50}, "", 10.0},
		{"no usage", openaitest.Answer{Text: "go"}, 60, 0, text.Reply{}, KindMalformed, 50.0},
		{"fails", openaitest.Answer{Status: 401, Body: "x"}, 0, 0, text.Reply{}, KindAuth, 50.0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openaitest.Serve(t, answers(tt.answer))
			c, _ := client(t, Options{BaseURL: s.URL})
			r := request
			r.Context = tt.context
			got, err := (&Speaker{Client: c, MaxContext: tt.most}).Reply(t.Context(), r)
			if (err != nil) != (tt.kind != "") || err != nil && !errors.Is(err, tt.kind) {
				t.Errorf("error %v, want %s", err, tt.kind)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			sent := s.Requests()
			if tt.limit == nil {
				if len(sent) > 0 {
					t.Errorf("%d requests, want none", len(sent))
				}
				return
			}
			raw := sent[0].Raw
			if raw["max_tokens"] != tt.limit || raw["temperature"] != 0.7 || raw["stop"] != nil || raw["top_p"] != nil {
				t.Errorf("request %v", raw)
			}
		})
	}
}

func TestSeeds(t *testing.T) {
	base := engine.Key{Seed: 1, Task: "a", Sample: 1}
	seen := map[int64]bool{}
	for _, k := range []struct {
		key  engine.Key
		turn int
	}{
		{base, 0}, {base, 1}, {engine.Key{Seed: 2, Task: "a", Sample: 1}, 0}, {engine.Key{Seed: 1, Task: "b", Sample: 1}, 0}, {engine.Key{Seed: 1, Task: "a", Sample: 2}, 0},
	} {
		seed := seedOf(k.key, k.turn)
		if seed < 0 || seed >= 1<<31 || seen[seed] {
			t.Errorf("key %+v has the seed %d of another key", k, seed)
		}
		seen[seed] = true
	}
	if r := RequestOf(engine.Params{MaxNew: 3, Temperature: 0.7, Greedy: true, TopP: 0.5, TopK: 2}); r.Temperature != 0 || r.TopP != 0 || r.TopK != 0 {
		t.Errorf("the request for greedy sampling is %+v", r)
	}
}
