package env

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// TestRecall checks that Recall requests the current observation after the reply to a step was lost. A new observation
// shows that the step was executed.
func TestRecall(t *testing.T) {
	const at, then = "you are here", "you are there"
	detail := func(observation, rest string) []reply {
		return ok(`{"observation":"` + observation + `",` + rest + `,"deleted":false}`)
	}
	for _, c := range []struct {
		name   string
		detail []reply
		want   StepResult
		ok     bool
		err    error
	}{
		{"executed", detail(then, `"reward":0,"done":false`), StepResult{Observation: then, Action: "move up", Sent: true}, true, nil},
		{"executed, the last step", detail(then, `"reward":1,"done":true`), StepResult{Observation: then, Reward: 1, Done: true, Action: "move up", Sent: true}, true, nil},
		{"same observation", detail(at, `"reward":0,"done":false`), StepResult{}, false, nil},
		{"first request fails", append([]reply{{Drop: true}}, detail(then, `"reward":0,"done":false`)...), StepResult{Observation: then, Action: "move up", Sent: true}, true, nil},
		{"task has ended", ok(`{"error":"The task with environment 0 has finished."}`), StepResult{}, false, nil},
		{"no such endpoint", []reply{{Status: 404, Body: `{"detail":"Not Found"}`}}, StepResult{}, false, KindRouting},
		{"no reward", detail(then, `"done":false`), StepResult{}, false, KindMalformed},
	} {
		for name, path := range map[string]string{"maze": "/maze", "textcraft": ""} {
			t.Run(name+": "+c.name, func(t *testing.T) {
				s := newScript(t, map[string][]reply{
					"POST " + path + "/create": ok(`{"id":0,"observation":"another task","reward":0,"done":false}`),
					"POST " + path + "/reset":  ok(`{"id":0,"observation":"first","reward":0,"done":false}`),
					"POST " + path + "/step":   {{Body: `{"observation":"` + at + `","reward":0,"done":false}`}, {Drop: true}},
					"GET " + path + "/detail":  slices.Clone(c.detail),
				})
				client := open(t, name, Options{BaseURL: s.URL, Backoff: 1})
				ctx := context.Background()
				if _, err := client.Reset(ctx, 1); err != nil {
					t.Fatal(err)
				}
				if _, err := client.Step(ctx, "Action: move down"); err != nil {
					t.Fatal(err)
				}
				if _, err := client.Step(ctx, "Action: move up"); !errors.Is(err, KindConnection) {
					t.Fatalf("the step returned %v, want a connection failure", err)
				}
				got, ok, err := client.(Recaller).Recall(ctx)
				if got != c.want || ok != c.ok || (err == nil) != (c.err == nil) || c.err != nil && !errors.Is(err, c.err) {
					t.Errorf("got %+v, %t, %v", got, ok, err)
				}
				if steps := s.count("POST " + path + "/step"); steps != 2 {
					t.Errorf("%d steps were sent: %q", steps, s.Requests())
				}
			})
		}
	}
}

// TestRecallAfterFailedReset checks that Recall finds no result after a failed reset, because there is no observation
// to compare with.
func TestRecallAfterFailedReset(t *testing.T) {
	s := newScript(t, map[string][]reply{
		"POST /maze/create": ok(`{"id":0}`), "POST /maze/reset": {{Status: 422, Body: "{}"}}, "POST /maze/step": {{Drop: true}},
		"GET /maze/detail": ok(`{"observation":"x","reward":0,"done":false}`),
	})
	client := open(t, "maze", Options{BaseURL: s.URL})
	ctx := context.Background()
	if _, err := client.Reset(ctx, 1); !errors.Is(err, KindValidation) {
		t.Fatal(err)
	}
	if _, err := client.Step(ctx, "Action: move up"); err == nil {
		t.Fatal("the step returned no error")
	}
	if got, ok, err := client.(Recaller).Recall(ctx); ok || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}
