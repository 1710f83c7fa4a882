package openai_test

import (
	"context"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/openai"
	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/agent/text"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// world is an environment whose second step succeeds.
type world struct{ texts []string }

func (w *world) Reset(context.Context, int) (env.Obs, error) {
	return env.Obs{Text: "You stand."}, nil
}

func (w *world) Step(_ context.Context, action string) (env.StepResult, error) {
	w.texts = append(w.texts, action)
	won := len(w.texts) == 2
	reward := 0.0
	if won {
		reward = 1
	}
	return env.StepResult{Observation: "You went.", Reward: reward, Done: won, Action: action, Sent: true}, nil
}

func (w *world) Close(context.Context) error { return nil }

func play(t *testing.T, format string, answer func(int, openaitest.Request) openaitest.Answer) (*data.Episode, *world, *openaitest.Server) {
	t.Helper()
	s := openaitest.Serve(t, answer)
	c, err := openai.New(openai.Options{BaseURL: s.URL, Model: "m", Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := agent.Formats.Lookup(format)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	ep, _ := agent.RunEpisode(t.Context(), agent.Setup{
		Engine: &text.Engine{Speaker: &openai.Speaker{Client: c}}, Renderer: text.Renderer{}, Format: f,
		Spec:    env.Spec{Name: "world", SuccessReward: 0.5, Instruction: func(format string) string { return "Play " + format + "." }},
		Options: agent.Options{MaxTurns: 5, MaxNewTokens: 50, MaxContext: 1 << 30, Temperature: 1},
	}, agent.Start{Task: data.Task{ID: "world_1", Env: "world"}, Client: w})
	return ep, w, s
}

func TestFormats(t *testing.T) {
	replies := map[string]struct{ text, received string }{
		"react":                   {"Thought: I see.\nAction: go", "Thought: I see.\nAction: go"},
		"action_tags":             {"I see. <action>go</action> and then", "Action: go"},
		env.FormatFunctionCalling: {`{"thought":"I see","function_name":"go","arguments":{}}`, `{"thought":"I see","function_name":"go","arguments":{}}`},
		env.FormatCodeAsAction:    {"```python\ngo()\n```", "```python\ngo()\n```"},
	}
	for format, reply := range replies {
		t.Run(format, func(t *testing.T) {
			ep, w, s := play(t, format, func(int, openaitest.Request) openaitest.Answer { return openaitest.Answer{Text: reply.text} })
			if ep.Outcome != data.Success || len(ep.Turns) != 2 || ep.Err != "" {
				t.Fatalf("%s after %d turns: %s", ep.Outcome, len(ep.Turns), ep.Err)
			}
			for _, got := range w.texts {
				if got != reply.received {
					t.Errorf("the environment received %q, want %q", got, reply.received)
				}
			}
			second := s.Requests()[1].Messages
			if len(second) != 3 || second[0].Content != "Play "+format+".\n\nYou stand." || second[1].Content != ep.Turns[0].Text || second[2].Content != "You went." {
				t.Errorf("messages of the second request: %+v", second)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		answer  openaitest.Answer
		outcome data.Outcome
		words   string
	}{
		"429":        {openaitest.Answer{Status: 429, Body: "{}"}, data.EngineError, "too many requests"},
		"500":        {openaitest.Answer{Status: 500, Body: "boom"}, data.EngineError, "boom"},
		"truncated":  {openaitest.Answer{Text: "x", Cut: true}, data.EngineError, "connection"},
		"no choices": {openaitest.Answer{Body: `{"choices":[]}`}, data.EngineError, "no choices"},
		"no JSON":    {openaitest.Answer{Body: `{`}, data.EngineError, "not understood"},
		"too long":   {openaitest.Answer{Status: 400, Body: `{"error":{"code":"context_length_exceeded"}}`}, data.ContextLimit, ""},
		"no text":    {openaitest.Answer{Text: "", Finish: "length"}, data.Success, ""}, // a valid reply
	} {
		t.Run(name, func(t *testing.T) {
			ep, _, _ := play(t, "react", func(int, openaitest.Request) openaitest.Answer { return tt.answer })
			if ep.Outcome != tt.outcome || !strings.Contains(ep.Err, tt.words) {
				t.Errorf("%s: %s", ep.Outcome, ep.Err)
			}
		})
	}
}
