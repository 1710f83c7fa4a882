package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// TestFirstPromptIsTruncated checks that only the observation is shortened if
// the first prompt is too long. The instruction and the template's text are
// kept, and the ids belong to the shortened messages.
func TestFirstPromptIsTruncated(t *testing.T) {
	obs := "HEAD " + strings.Repeat("a", 200) + strings.Repeat("z", 200) + " TAIL"
	const limit = 160
	for _, c := range []struct {
		format     Format
		truncation string
		head, tail bool
	}{
		{react, TruncateLeft, false, true},
		{react, TruncateRight, true, false},
		{react, TruncateMiddle, true, true},
		{history{length: 1}, TruncateLeft, false, true},
		{history{length: 1}, TruncateRight, true, false},
		{staged{}, TruncateMiddle, true, true},
	} {
		t.Run(c.format.Name()+" "+c.truncation, func(t *testing.T) {
			act := "Action: x <action>x</action>"
			e := &contextEngine{fakeEngine: fakeEngine{replies: []fakeReply{{text: act}, {text: act}}}}
			client := &fakeClient{obs: obs, steps: []env.StepResult{{Observation: "on", Action: "x", Sent: true}, {Done: true, Action: "x", Sent: true}}}
			setup := testSetup(e)
			setup.Format = c.format
			setup.Options.MaxContext, setup.Options.InstructionRole = 4000, RoleSystem
			empty, err := RunEpisode(t.Context(), setup, Start{Client: &fakeClient{steps: []env.StepResult{{Done: true}}}})
			if err != nil {
				t.Fatal(err)
			}
			frame := empty.Turns[0].Start // tokens of a prompt without an observation
			e.contexts, e.context, e.params = nil, nil, nil
			setup.Options.MaxPrompt, setup.Options.Truncation = frame+limit, c.truncation
			ep, err := RunEpisode(t.Context(), setup, Start{Task: data.Task{ID: "fake_5"}, Client: client})
			if err != nil {
				t.Fatal(err)
			}
			if n := ep.Turns[0].Start; n > frame+limit || n < frame+limit/2 || !ep.PromptTruncated {
				t.Errorf("the first prompt has %d tokens, want at most %d + %d; PromptTruncated is %v", n, frame, limit, ep.PromptTruncated)
			}
			text := fakeRenderer{}.Decode(ep.Tokens[:ep.Turns[0].Start])
			shown := ep.Messages[1].Content
			if !strings.HasPrefix(text, "<system>Play "+c.format.Name()+".<end><user>") || !strings.HasSuffix(text, "<end><assistant>") || !strings.Contains(text, shown) {
				t.Errorf("the first prompt is %q, its user message is %q", text, shown)
			}
			if strings.Contains(shown, "HEAD") != c.head || strings.Contains(shown, "TAIL") != c.tail || strings.Count(shown, cutMark) != 1 {
				t.Errorf("the shown observation is %q", shown)
			}
			if ep.FirstObservation != obs {
				t.Error("the recorded observation differs from the environment's")
			}
			for i, s := range ep.ContextSpans() { // the recorded tokens equal the engine's
				if got, want := (fakeRenderer{}).Decode(ep.Tokens[s[0]:s[1]]), (fakeRenderer{}).Decode(e.all()[i]); got != want {
					t.Errorf("context %d holds %q, the engine received %q", i, got, want)
				}
				if text := (fakeRenderer{}).Decode(ep.Tokens[s[0]:s[1]]); strings.Contains(text, obs) {
					t.Errorf("context %d shows the whole observation: %q", i, text)
				}
			}
		})
	}
}

// TestFirstPromptDoesNotFit checks the error, or the exclusion of the task, if the prompt cannot be shortened enough.
func TestFirstPromptDoesNotFit(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Options)
		obs     string
		outcome data.Outcome
	}{
		"error":                 {func(o *Options) { o.Truncation = TruncateError }, strings.Repeat("x", 100), data.ContextLimit},
		"instruction too long":  {func(o *Options) { o.Truncation, o.MaxPrompt = TruncateLeft, 10 }, "start", data.ContextLimit},
		"no room for a word":    {func(o *Options) { o.Truncation, o.MaxPrompt = TruncateMiddle, 17 }, strings.Repeat("日", 40), data.ContextLimit},
		"filter":                {func(o *Options) { o.FilterOverlong = true }, strings.Repeat("x", 100), data.OverlongPrompt},
		"filter before context": {func(o *Options) { o.FilterOverlong, o.MaxPrompt, o.MaxContext = true, 0, 60 }, strings.Repeat("x", 100), data.OverlongPrompt},
	} {
		e := &fakeEngine{}
		setup := testSetup(e)
		setup.Options.MaxPrompt = 50
		c.change(&setup.Options)
		ep, err := RunEpisode(t.Context(), setup, Start{Task: data.Task{ID: "fake_5"}, Client: &fakeClient{obs: c.obs}})
		var prompt *PromptError
		if !errors.As(err, &prompt) || prompt.Task != "fake_5" || ep.Outcome != c.outcome || ep.PromptTruncated || len(e.params) > 0 || ep.Err == "" {
			t.Errorf("%s: outcome %s, truncated %v, %v", name, ep.Outcome, ep.PromptTruncated, err)
		}
		if want := "Play react.\n\n" + c.obs; ep.Messages[0].Content != want {
			t.Errorf("%s: the message is %q, want %q", name, ep.Messages[0].Content, want)
		}
		if ep.Outcome == data.OverlongPrompt && ep.Outcome.Trainable() {
			t.Errorf("%s: Trainable is true for the outcome OverlongPrompt, want false", name)
		}
	}
}
