package agent

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

func TestEpisodeTokenByToken(t *testing.T) {
	e := &fakeEngine{replies: []fakeReply{
		{text: "Thought: a\nAction: left"},
		{text: "Action: up", stop: engine.StopLength},
	}}
	c := &fakeClient{obs: "start", steps: []env.StepResult{
		{Observation: "wall", Reward: -1, Action: "left", Sent: true},
		{Observation: "goal", Reward: 1, Done: true, Action: "up", Sent: true},
	}}
	task := data.Task{ID: "fake_5", Env: "fake", Index: 5}
	ep, _ := RunEpisode(t.Context(), testSetup(e), Start{Task: task, UID: "u", Sample: 2, Seed: 9, Attempt: 1, Client: c})

	const rendered = "<user>Play react.\n\nstart<end><assistant>Thought: a\nAction: left<end><user>wall<end><assistant>Action: up"
	if got := (fakeRenderer{}).Decode(ep.Tokens); got != rendered {
		t.Errorf("tokens are\n%s\nwant\n%s", got, rendered)
	}
	if diff := cmp.Diff(ep.Tokens, e.context); diff != "" {
		t.Errorf("the episode differs from the engine's input (-episode +engine):\n%s", diff)
	}
	// The mask is 1 exactly on the sampled ids, including the stop token.
	var sampled []int32
	for i, id := range ep.Tokens {
		if ep.Mask[i] == 1 {
			sampled = append(sampled, id)
		}
		if (ep.LogProbs[i] != 0) != (ep.Mask[i] == 1) {
			t.Errorf("token %d: log-prob %g with mask %d, want log-probs on sampled ids only", i, ep.LogProbs[i], ep.Mask[i])
		}
	}
	if got, want := (fakeRenderer{}).Decode(sampled), "Thought: a\nAction: left<end>Action: up"; got != want {
		t.Errorf("sampled ids are %q, want %q", got, want)
	}
	if got := ep.SampledTokens(); got != ep.Turns[0].End-ep.Turns[0].Start+ep.Turns[1].End-ep.Turns[1].Start {
		t.Errorf("SampledTokens is %d, which differs from the sum over the turns: %+v", got, ep.Turns)
	}
	want := &data.Episode{
		Task: task, UID: "u", Sample: 2, Seed: 9, Reward: 1, Outcome: data.Success, WeightVersion: 4, Attempts: 1,
		Instruction: "Play react.", FirstObservation: "start",
		Turns: []data.Turn{
			{Start: 21, End: 45, Text: "Thought: a\nAction: left", Action: "left", Parsed: true, Stop: "eos", Observation: "wall", Reward: -1},
			{Start: 52, End: 62, Text: "Action: up", Action: "up", Parsed: true, Stop: "length", Observation: "goal", Reward: 1, Done: true},
		},
		Messages: []data.Message{
			{Role: "user", Content: "Play react.\n\nstart"},
			{Role: "assistant", Content: "Thought: a\nAction: left"},
			{Role: "user", Content: "wall"},
			{Role: "assistant", Content: "Action: up"},
		},
	}
	if diff := cmp.Diff(want, ep,
		cmpopts.IgnoreFields(data.Episode{}, "Tokens", "Mask", "LogProbs", "Millis"),
		cmpopts.IgnoreFields(data.Turn{}, "GenMillis", "EnvMillis")); diff != "" {
		t.Errorf("episode (-want +got):\n%s", diff)
	}
	if c.index != 5 {
		t.Errorf("Reset received index %d, want the task's index 5", c.index)
	}
	if e.closed != 1 {
		t.Errorf("session closed %d times, want once", e.closed)
	}
	if want := (engine.SessionOptions{Key: engine.Key{Seed: 9, Task: "fake_5", Sample: 2}, MaxContext: 1000}); e.options != want {
		t.Errorf("session options %+v, want %+v", e.options, want)
	}
	if p := e.params[1]; p.Turn != 1 || p.MaxNew != 50 || p.Temperature != 0.7 || p.TopK != 5 || len(p.StopTokens) != 1 {
		t.Errorf("parameters of the second turn: %+v", p)
	}
}

// TestIgnoreEOS checks that requests have no stop tokens if IgnoreEOS is set.
func TestIgnoreEOS(t *testing.T) {
	e := &fakeEngine{replies: []fakeReply{{text: "Action: up", stop: engine.StopLength}}}
	s := testSetup(e)
	s.Options.IgnoreEOS, s.Options.MaxTurns = true, 1
	c := &fakeClient{obs: "start", steps: []env.StepResult{{Observation: "wall", Action: "up", Sent: true}}}
	ep, _ := RunEpisode(t.Context(), s, Start{Task: data.Task{ID: "fake_5", Env: "fake", Index: 5}, Client: c})
	if ep.Outcome != data.TurnLimit || len(e.params) != 1 || len(e.params[0].StopTokens) != 0 {
		t.Errorf("outcome %s, parameters %+v", ep.Outcome, e.params)
	}
}

func TestOutcomes(t *testing.T) {
	goOn := env.StepResult{Observation: "on", Action: "x", Sent: true}
	act := fakeReply{text: "Action: x"}
	tests := []struct {
		name    string
		replies []fakeReply
		client  fakeClient
		change  func(*Setup)
		want    data.Outcome
		err     string // pattern of Episode.Err
		turns   int
		reward  float64
	}{
		{name: "done without success", replies: []fakeReply{act},
			client: fakeClient{steps: []env.StepResult{{Reward: 0.5, Done: true}}}, want: data.Done, turns: 1, reward: 0.5},
		{name: "success", replies: []fakeReply{act},
			client: fakeClient{steps: []env.StepResult{{Reward: 0.6, Done: true}}}, want: data.Success, turns: 1, reward: 0.6},
		{name: "the last reward counts, not the sum", replies: []fakeReply{act, act},
			client: fakeClient{steps: []env.StepResult{{Reward: 1}, {Reward: 0, Done: true}}}, want: data.Done, turns: 2},
		{name: "turn limit", replies: []fakeReply{act, act, act},
			client: fakeClient{steps: []env.StepResult{goOn, goOn, goOn}}, want: data.TurnLimit, turns: 3},
		{name: "turn limit with a score that is a success", replies: []fakeReply{act},
			client: fakeClient{steps: []env.StepResult{{Reward: 1}}}, change: func(s *Setup) { s.Options.MaxTurns = 1 },
			want: data.Success, turns: 1, reward: 1},
		{name: "the prompt does not fit", client: fakeClient{obs: strings.Repeat("x", 1000)},
			want: data.ContextLimit, err: "1016 tokens.*max_context_tokens is 1000"},
		{name: "the prompt is longer than allowed", client: fakeClient{obs: strings.Repeat("x", 100)},
			change: func(s *Setup) { s.Options.MaxPrompt = 50 },
			want:   data.ContextLimit, err: "116 tokens.*max_prompt_tokens is 50"},
		{name: "an observation does not fit", replies: []fakeReply{act},
			client: fakeClient{steps: []env.StepResult{{Observation: strings.Repeat("x", 1000)}}}, want: data.ContextLimit, turns: 1},
		{name: "the context limit cuts a reply", replies: []fakeReply{{text: "Action: x", stop: engine.StopContext}},
			want: data.ContextLimit, turns: 1},
		{name: "the context limit cuts a reply after a success", replies: []fakeReply{act, {text: "Action: y", stop: engine.StopContext}},
			client: fakeClient{steps: []env.StepResult{{Reward: 1}}}, change: func(s *Setup) { s.Spec.Cumulative = true },
			want: data.Success, turns: 2, reward: 1},
		{name: "parse limit", replies: []fakeReply{{text: "hm"}, {text: "hm"}},
			client: fakeClient{steps: []env.StepResult{goOn, goOn}},
			change: func(s *Setup) { s.Options.ParseLimit = 2 }, want: data.ParseLimit, turns: 2},
		{name: "the parse limit counts consecutive replies", replies: []fakeReply{{text: "hm"}, act, {text: "hm"}},
			client: fakeClient{steps: []env.StepResult{goOn, goOn, goOn}},
			change: func(s *Setup) { s.Options.ParseLimit = 2 }, want: data.TurnLimit, turns: 3},
		{name: "a final answer", replies: []fakeReply{{text: "<answer>4</answer>"}},
			client: fakeClient{steps: []env.StepResult{goOn}},
			change: func(s *Setup) { s.Format = actionTags{}; s.Options.FinalEnds = true }, want: data.Done, turns: 1},
		{name: "reset fails", client: fakeClient{resetErr: errors.New("no server")}, want: data.EnvError, err: "no server"},
		{name: "step fails", replies: []fakeReply{act}, client: fakeClient{stepErr: errors.New("status 500")},
			want: data.EnvError, err: "status 500", turns: 1},
		{name: "engine fails", replies: []fakeReply{act, {err: errors.New("out of memory")}},
			client: fakeClient{steps: []env.StepResult{goOn}}, want: data.EngineError, err: "turn 2: generate: out of memory", turns: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := &fakeEngine{replies: tt.replies}
			setup := testSetup(e)
			if tt.change != nil {
				tt.change(&setup)
			}
			ep, err := RunEpisode(t.Context(), setup, Start{Task: data.Task{ID: "fake_5"}, Client: &tt.client})
			if (err == nil) != (ep.Err == "") || err != nil && err.Error() != ep.Err {
				t.Errorf("RunEpisode returned error %v, but Episode.Err is %q", err, ep.Err)
			}
			if ep.Outcome != tt.want || !regexp.MustCompile(tt.err).MatchString(ep.Err) || (tt.err == "") != (ep.Err == "") || len(ep.Turns) != tt.turns || ep.Reward != tt.reward {
				t.Errorf("got %s, %q, %d turns, reward %g; want %s, %q, %d, %g",
					ep.Outcome, ep.Err, len(ep.Turns), ep.Reward, tt.want, tt.err, tt.turns, tt.reward)
			}
			if ep.Cumulative != setup.Spec.Cumulative {
				t.Errorf("Cumulative is %t", ep.Cumulative)
			}
			for i, turn := range ep.Turns {
				cut := i == len(ep.Turns)-1 && (turn.Stop == string(engine.StopContext) || ep.Outcome == data.EnvError)
				if turn.Unjudged != cut {
					t.Errorf("turn %d is unjudged: %t", i+1, turn.Unjudged)
				}
			}
			if len(ep.Mask) != len(ep.Tokens) || len(ep.LogProbs) != len(ep.Tokens) {
				t.Errorf("%d tokens, %d mask entries, %d log-probs; want equal lengths", len(ep.Tokens), len(ep.Mask), len(ep.LogProbs))
			}
			if len(ep.Tokens) > setup.Options.MaxContext {
				t.Errorf("%d tokens exceed the context of %d", len(ep.Tokens), setup.Options.MaxContext)
			}
			if e.open != e.closed {
				t.Errorf("%d sessions opened, %d closed", e.open, e.closed)
			}
		})
	}
}

func TestCancelledWhileInTheEnvironment(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &fakeClient{onStep: cancel, stepErr: context.Canceled}
	ep, err := RunEpisode(ctx, testSetup(&fakeEngine{replies: []fakeReply{{text: "Action: x"}}}), Start{Client: c})
	if ep.Outcome != data.Cancelled || ep.Outcome.Trainable() || !errors.Is(err, context.Canceled) {
		t.Errorf("outcome %s, %v, want cancelled", ep.Outcome, err)
	}
}

func TestTimeLimitIsAnEnvironmentError(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	c := &fakeClient{onStep: func() { cancel(ErrTimeLimit) }, stepErr: context.Canceled}
	ep, err := RunEpisode(ctx, testSetup(&fakeEngine{replies: []fakeReply{{text: "Action: x"}}}), Start{Client: c})
	if ep.Outcome != data.EnvError || !errors.Is(err, ErrTimeLimit) {
		t.Errorf("outcome %s, %v, want env_error for the time limit", ep.Outcome, err)
	}
}

// TestGivenSessionIsClosed checks that a session opened in advance is used, and is closed
// even if the environment fails first. A deterministic engine waits until it is closed.
func TestGivenSessionIsClosed(t *testing.T) {
	e := &fakeEngine{}
	s, _ := e.Open(t.Context(), engine.SessionOptions{})
	ep, err := RunEpisode(t.Context(), testSetup(e), Start{Client: &fakeClient{resetErr: errors.New("x")}, Session: s})
	if err == nil || ep.Outcome != data.EnvError || e.open != 1 || e.closed != 1 {
		t.Errorf("outcome %s, %d opened, %d closed", ep.Outcome, e.open, e.closed)
	}
}

func TestUnparsableTextGoesToTheEnvironment(t *testing.T) {
	for _, f := range []Format{react, actionTags{}} {
		c := &fakeClient{steps: []env.StepResult{{Done: true}}}
		setup := testSetup(&fakeEngine{replies: []fakeReply{{text: "move left"}}})
		setup.Format = f
		ep, err := RunEpisode(t.Context(), setup, Start{Client: c})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"move left"}, c.texts); diff != "" {
			t.Errorf("%s: Step received (-want +got):\n%s", f.Name(), diff)
		}
		if ep.Turns[0].Parsed {
			t.Errorf("%s: the reply counts as parsed", f.Name())
		}
	}
}

func TestObservationIsShortened(t *testing.T) {
	long := strings.Repeat("head ", 40) + strings.Repeat("tail ", 40)
	e := &fakeEngine{replies: []fakeReply{{text: "Action: x"}, {text: "Action: y"}}}
	c := &fakeClient{obs: long, steps: []env.StepResult{{Observation: long}, {Observation: long, Done: true}}}
	setup := testSetup(e)
	setup.Options.MaxObsTokens = 100
	ep, err := RunEpisode(t.Context(), setup, Start{Client: c})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(ep.Messages[0].Content, long) {
		t.Error("the first observation was shortened")
	}
	seen := ep.Messages[2].Content
	if len(seen) > 100 || len(seen) < 60 || !strings.HasPrefix(seen, "head ") || !strings.HasSuffix(seen, "tail ") || !strings.Contains(seen, cutMark) {
		t.Errorf("the model received %q", seen)
	}
	if ep.Turns[0].Observation != long || !ep.Turns[0].Truncated || ep.Turns[1].Truncated {
		t.Errorf("turns are %+v, want only the first one shortened", ep.Turns)
	}
}

func TestCapObservation(t *testing.T) {
	runes := func(s string) (int, error) { return len([]rune(s)), nil }
	for _, text := range []string{"", "short", strings.Repeat("日本", 300), strings.Repeat("x", 5000)} {
		for _, limit := range []int{0, 1, 5, 29, 30, 200} {
			got, cut, err := truncate(text, limit, TruncateMiddle, runes)
			n, _ := runes(got)
			if err != nil || limit > 0 && n > limit || cut != (got != text) || !strings.HasPrefix(text, got[:min(len(got), 1)]) {
				t.Errorf("limit %d, text of %d bytes: %q, shortened %v, %v", limit, len(text), got, cut, err)
			}
			if limit > 0 && len([]rune(text)) > limit && n < limit/2 {
				t.Errorf("limit %d, text of %d bytes: only %d characters are left", limit, len(text), n)
			}
		}
	}
}
