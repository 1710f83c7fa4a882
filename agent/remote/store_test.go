package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/serve"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
)

// check compares an episode with the texts of its contexts, in which sampled parts are in [ ].
func (r *rig) check(ep *data.Episode, contexts ...string) {
	r.t.Helper()
	if err := ep.CheckContexts(); err != nil {
		r.t.Fatal(err)
	}
	rows, err := data.Rows([]*data.Episode{ep})
	if err != nil {
		r.t.Fatal(err)
	}
	var got []string
	for _, row := range rows {
		if err := row.Validate(); err != nil {
			r.t.Error(err)
		}
		text, in := "", false
		for i, id := range row.Tokens {
			if sampled := row.Mask[i] == 1; sampled != in {
				text, in = text+map[bool]string{true: "[", false: "]"}[sampled], sampled
			}
			text += r.tok.Decode([]int32{id}, false)
			if want := map[bool]float32{true: logProbAt(i)}[in]; row.RolloutLogProbs[i] != want {
				r.t.Errorf("token %d has the log-prob %v, want %v", i, row.RolloutLogProbs[i], want)
			}
		}
		if in {
			text += "]"
		}
		got = append(got, text)
	}
	if diff := cmp.Diff(contexts, got); diff != "" {
		r.t.Errorf("contexts: -want +got:\n%s", diff)
	}
}

const (
	sys = "<|im_start|>system\nbe brief<|im_end|>\n"
	you = "<|im_start|>user\n"
	me  = "<|im_end|>\n<|im_start|>assistant\n"
)

// TestContexts checks which requests continue a context.
func TestContexts(t *testing.T) {
	replies := map[string]string{"a": " one ", "b": "two", "c": "three", "x": "four"}
	reply := func(context string) string {
		i := strings.LastIndex(context, you)
		return replies[context[i+len(you):i+len(you)+1]]
	}
	first := sys + you + "a" + me + "[ one <|im_end|>]"
	for _, tt := range []struct {
		name  string
		turns [][]string
		want  []string
	}{
		{"continued", [][]string{{"a"}, {"a", " one ", "b"}}, []string{first + "\n" + you + "b" + me + "[two<|im_end|>]"}},
		{"stripped", [][]string{{"a"}, {"a", "one", "b"}}, []string{first + "\n" + you + "b" + me + "[two<|im_end|>]"}},
		{"edited reply", [][]string{{"a"}, {"a", "on", "b"}}, []string{first, sys + you + "a" + me + "on<|im_end|>\n" + you + "b" + me + "[two<|im_end|>]"}},
		{"edited question", [][]string{{"a"}, {"x", " one ", "b"}}, []string{first, sys + you + "x" + me + " one <|im_end|>\n" + you + "b" + me + "[two<|im_end|>]"}},
		{"foreign reply", [][]string{{"a"}, {"a", " one ", "x", "else", "b"}},
			[]string{first, sys + you + "a" + me + " one <|im_end|>\n" + you + "x" + me + "else<|im_end|>\n" + you + "b" + me + "[two<|im_end|>]"}},
		{"branched", [][]string{{"a"}, {"a", " one ", "b"}, {"a", " one ", "c"}},
			[]string{first + "\n" + you + "b" + me + "[two<|im_end|>]", sys + you + "a" + me + " one <|im_end|>\n" + you + "c" + me + "[three<|im_end|>]"}},
		{"the same again", [][]string{{"a"}, {"a"}}, []string{first, first}},
		{"two conversations", [][]string{{"a"}, {"b"}, {"a", " one ", "c"}, {"b", "two", "x"}},
			[]string{first + "\n" + you + "c" + me + "[three<|im_end|>]", sys + you + "b" + me + "[two<|im_end|>]\n" + you + "x" + me + "[four<|im_end|>]"}},
		{"one of two continued", [][]string{{"a"}, {"a"}, {"a", " one ", "b"}, {"a", " one ", "b", "two", "c"}},
			[]string{first, first + "\n" + you + "b" + me + "[two<|im_end|>]\n" + you + "c" + me + "[three<|im_end|>]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, reply, nil)
			step := r.collect(1, rollout.Options{GroupSize: 1, Step: 3, Seed: 9})
			for _, texts := range tt.turns {
				if got, want := r.say("s", "t", texts...), replies[texts[len(texts)-1][:1]]; got != want {
					t.Errorf("%q: got %q, want %q", texts, got, want)
				}
			}
			if status, v := r.reward("s", `{"reward":0.5}`); status != 200 || v["turns"] != float64(len(tt.turns)) || v["contexts"] != float64(len(tt.want)) {
				t.Errorf("reward: %d %v", status, v)
			}
			got := <-step
			if got.err != nil || len(got.episodes) != 1 {
				t.Fatalf("Collect: %v, %v", got.episodes, got.err)
			}
			ep := got.episodes[0]
			if len(tt.want) > 1 && len(ep.Contexts) != len(tt.want) {
				t.Errorf("contexts %v", ep.Contexts)
			}
			r.check(ep, tt.want...)
			if n := len(ep.Turns); n != len(tt.turns) || ep.Turns[n-1].Reward != .5 || !ep.Turns[n-1].Done || ep.Reward != .5 || ep.Outcome != data.Success {
				t.Errorf("turns %+v, reward %v, outcome %s", ep.Turns, ep.Reward, ep.Outcome)
			}
			if r.engine.Stats().Open != 0 {
				t.Error("the engine has open sessions after the step")
			}
		})
	}
}

// TestEpisode checks the fields of an episode.
func TestEpisode(t *testing.T) {
	r := newRig(t, func(c string) string { return fmt.Sprint("r", strings.Count(c, you), "</a>rest") }, nil)
	step := r.collect(1, rollout.Options{GroupSize: 1, Step: 3, Seed: 9})
	for _, texts := range [][]string{{"first"}, {"first", "r1", "second"}} {
		status, v := r.do(http.MethodPost, "/v1/chat/completions", `{"messages":`+conversation(texts...)+`,"stop":"</a>","max_tokens":500,"return_token_ids":true}`,
			serve.SessionHeader, "s", serve.TaskHeader, "t")
		c := v["choices"].([]any)[0].(map[string]any)
		if status != 200 || c["finish_reason"] != "stop" || len(v["prompt_token_ids"].([]any)) == 0 || v["usage"].(map[string]any)["prompt_tokens"] != float64(len(v["prompt_token_ids"].([]any))) {
			t.Errorf("%d %v", status, v)
		}
		r.reward("s", `{"reward":0.25,"done":false}`)
	}
	r.reward("s", `{"reward":-1,"done":true,"success":true}`)
	ep := (<-step).episodes[0]
	r.check(ep, sys+you+"first"+me+"[r1</a>]<|im_end|>\n"+you+"second"+me+"[r2</a>]")
	seed := rollout.EpisodeSeed(9, 3, Env, "t", 0, 0)
	if ep.UID != "3/remote/t" || ep.Sample != 0 || ep.Seed != seed || ep.WeightVersion != 5 || ep.Attempts != 1 || ep.Task.ID != "t" || ep.Task.Env != Env || ep.Task.Index != data.NoIndex {
		t.Errorf("episode %+v", ep)
	}
	if ep.Instruction != "be brief" || ep.FirstObservation != "first" || len(ep.Messages) != 5 || ep.Messages[2].Content != "r1" || ep.Contexts != nil {
		t.Errorf("instruction %q, first observation %q, messages %v", ep.Instruction, ep.FirstObservation, ep.Messages)
	}
	for i, want := range []data.Turn{
		{Text: "r1", Action: "r1", Parsed: true, Stop: "stop_string", Observation: "second", Reward: .25},
		{Text: "r2", Action: "r2", Parsed: true, Stop: "stop_string", Reward: -1, Done: true},
	} {
		got := ep.Turns[i]
		got.Start, got.End, got.GenMillis = 0, 0, 0
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("turn %d: -want +got:\n%s", i, diff)
		}
	}
	if ep.Outcome != data.Success {
		t.Errorf("outcome %s", ep.Outcome)
	}
}

// TestTokenPrompts checks that token ids that begin with the recorded ones continue them.
func TestTokenPrompts(t *testing.T) {
	r := newRig(t, func(string) string { return "ok" }, nil)
	step := r.collect(1, rollout.Options{GroupSize: 1})
	ask := func(prompt []int32) []any {
		status, v := r.do(http.MethodPost, "/v1/completions", `{"prompt":`+strings.ReplaceAll(fmt.Sprint(prompt), " ", ",")+`,"return_token_ids":true}`, serve.SessionHeader, "s")
		if status != 200 {
			t.Fatal(v)
		}
		return v["choices"].([]any)[0].(map[string]any)["token_ids"].([]any)
	}
	encode := func(text string) []int32 { return r.tok.Encode(text, tokenizer.Options{}) }
	prompt := encode("hello ")
	for _, id := range ask(prompt) {
		prompt = append(prompt, int32(id.(float64)))
	}
	ask(append(slices.Clone(prompt), encode("more ")...))
	ask(encode("hello again "))
	r.reward("s", `{"reward":1}`)
	r.check((<-step).episodes[0], "hello [ok<|im_end|>]more [ok<|im_end|>]", "hello again [ok<|im_end|>]")
}

// TestStream checks that a streamed reply is recorded as a whole one.
func TestStream(t *testing.T) {
	r := newRig(t, func(c string) string { return fmt.Sprint("r", strings.Count(c, you), "né") }, nil)
	step := r.collect(1, rollout.Options{GroupSize: 1})
	for _, texts := range [][]string{{"a"}, {"a", "r1né", "b"}} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"stream":true,"messages":`+conversation(texts...)+`}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(serve.SessionHeader, "s")
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, req)
		if body := w.Body.String(); w.Code != 200 || !strings.HasSuffix(body, "data: [DONE]\n\n") || !strings.Contains(body, `"finish_reason":"stop"`) {
			t.Errorf("%d %s", w.Code, body)
		}
	}
	r.reward("s", `{"reward":1}`)
	ep := (<-step).episodes[0]
	if len(ep.Contexts) > 0 || len(ep.Turns) != 2 || ep.Turns[1].Text != "r2né" {
		t.Errorf("contexts %v, turns %+v", ep.Contexts, ep.Turns)
	}
}

// TestAdmission checks the places of a step: by task, in groups, with the rest waiting.
func TestAdmission(t *testing.T) {
	r := newRig(t, func(string) string { return "ok" }, func(o *Options) { o.Waiting = 2 })
	step := r.collect(2, rollout.Options{GroupSize: 2, Step: 1})
	for session, task := range map[string]string{"a1": "A", "a2": "A"} {
		r.say(session, task, "q")
	}
	r.say("b1", "B", "q")
	if _, v := r.do(http.MethodGet, "/v1/episodes/b1", ""); v["group"] != "1/remote/B" || v["status"] != "running" || v["sample"] != 0. {
		t.Errorf("episode %v", v)
	}
	var wg sync.WaitGroup
	waits := func(session, task string) {
		wg.Go(func() { r.say(session, task, "q") })
		n := 0
		r.until("a session waits", func() bool { n++; return r.waiting > 0 && n > 3 })
	}
	waits("a3", "A") // the group of A is full, and the step has two groups
	waits("c1", "C")
	r.until("both wait", func() bool { return r.waiting == 2 })
	status, v := r.do(http.MethodPost, "/v1/chat/completions", `{"messages":`+conversation("q")+`}`, serve.SessionHeader, "d1", serve.TaskHeader, "D")
	if status != http.StatusTooManyRequests {
		t.Errorf("a session beyond the limit: %d %v", status, v)
	}
	r.say("b2", "B", "q")
	r.say("b2", "", "q", "ok", "more") // a running session does not wait
	if status, v := r.do(http.MethodPost, "/v1/chat/completions", `{"messages":`+conversation("q")+`}`, serve.SessionHeader, "b2", serve.TaskHeader, "A"); status != 400 {
		t.Errorf("another task in a session: %d %v", status, v)
	}
	for _, session := range []string{"b2", "a1", "b1", "a2"} {
		r.reward(session, `{"reward":1}`)
	}
	got := <-step
	var order []string
	for _, ep := range got.episodes {
		order = append(order, fmt.Sprintf("%s %d", ep.UID, ep.Sample))
	}
	if diff := cmp.Diff([]string{"1/remote/A 0", "1/remote/A 1", "1/remote/B 0", "1/remote/B 1"}, order); diff != "" || got.stats.Done != 4 || got.stats.Success != 4 || got.stats.Turns != 5 {
		t.Errorf("%s %+v", diff, got.stats)
	}
	if _, v := r.do(http.MethodGet, "/v1/episodes/b2", ""); v["status"] != "collected" || v["turns"] != 2. || v["reward"] != 1. || v["sampled_tokens"] != 6. {
		t.Errorf("collected episode %v", v)
	}
	// The next step plays A again in the same step number: another group with other draws.
	step = r.collect(2, rollout.Options{GroupSize: 1, Step: 1, Earlier: []data.Task{{ID: "A"}}})
	wg.Wait()
	r.reward("a3", `{"reward":0}`)
	r.reward("c1", `{"reward":0}`)
	got = <-step
	if ep := got.episodes[slices.IndexFunc(got.episodes, func(ep *data.Episode) bool { return ep.Task.ID == "A" })]; ep.UID != "1/remote/A#2" || ep.Seed == rollout.EpisodeSeed(0, 1, Env, "A", 0, 0) {
		t.Errorf("the repeated task has uid %s", ep.UID)
	}
}

// TestWaitEnds checks the error of a session that is not admitted in time.
func TestWaitEnds(t *testing.T) {
	r := newRig(t, func(string) string { return "ok" }, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := r.Generate(ctx, serve.SessionRequest{ID: "s", Messages: []data.Message{{Role: "user", Content: "q"}}})
	if e, ok := errors.AsType[*serve.Error](err); !ok || e.Status != http.StatusServiceUnavailable || e.RetryAfter == 0 {
		t.Errorf("got %v", err)
	}
	r.Close()
	if _, err := r.Generate(t.Context(), serve.SessionRequest{ID: "s", Messages: []data.Message{{Role: "user", Content: "q"}}}); !errors.Is(err, Ended) {
		t.Errorf("after the end: %v", err)
	}
}

// TestIdle checks that an episode without activity loses its place to another session.
func TestIdle(t *testing.T) {
	r := newRig(t, func(string) string { return "ok" }, func(o *Options) { o.Idle = 400 * time.Millisecond })
	step := r.collect(1, rollout.Options{GroupSize: 1})
	r.say("lost", "t", "q")
	r.until("the episode is dropped", func() bool { return r.episodes["lost"].status == droppedStatus })
	if status, v := r.do(http.MethodPost, "/v1/chat/completions", `{"messages":`+conversation("q")+`}`, serve.SessionHeader, "lost"); status != http.StatusGone {
		t.Errorf("a request after the drop: %d %v", status, v)
	}
	if status, v := r.reward("lost", `{"reward":1}`); status != http.StatusGone {
		t.Errorf("a reward after the drop: %d %v", status, v)
	}
	if _, v := r.do(http.MethodGet, "/v1/episodes/lost", ""); v["status"] != "dropped" || !strings.Contains(v["reason"].(string), "400ms") || v["sampled_tokens"] != 3. {
		t.Errorf("dropped episode %v", v)
	}
	r.say("next", "t", "q")
	r.reward("next", `{"reward":1}`)
	got := <-step
	if len(got.episodes) != 1 || got.episodes[0].Attempts != 2 || got.stats.Failed != 1 {
		t.Errorf("episodes %v, stats %+v", got.episodes, got.stats)
	}
}

// TestStalledStep checks that a step ends whose groups cannot be completed.
func TestStalledStep(t *testing.T) {
	r := newRig(t, func(string) string { return "ok" }, func(o *Options) { o.Idle = 400 * time.Millisecond })
	step := r.collect(1, rollout.Options{GroupSize: 2, Step: 1})
	r.say("a", "A", "q")
	r.reward("a", `{"reward":1}`)
	select {
	case <-step:
		t.Fatal("the step ended although no session waits")
	case <-time.After(600 * time.Millisecond):
	}
	var wg sync.WaitGroup
	wg.Go(func() { r.say("b", "B", "q") })
	if got := <-step; len(got.episodes) != 1 || got.err != nil {
		t.Errorf("episodes %v, error %v", got.episodes, got.err)
	}
	step = r.collect(1, rollout.Options{GroupSize: 1, Step: 2})
	wg.Wait()
	r.reward("b", `{"reward":1}`)
	<-step
}

// TestStop checks that the end of a run breaks off a step that waits for agents.
func TestStop(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, func(string) string { return "ok" }, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	step := r.collect(1, rollout.Options{GroupSize: 2})
	r.say("a", "A", "q")
	end := errors.New("interrupted")
	r.stop(end)
	if got := <-step; !errors.Is(got.err, end) {
		t.Errorf("Collect returned %v, want the cause of the stop", got.err)
	}
	if log.Len() > 0 {
		t.Errorf("an interrupted run needs no warnings of episodes:\n%s", &log)
	}
	if _, v := r.do(http.MethodGet, "/v1/episodes/a", ""); v["status"] != "dropped" {
		t.Errorf("episode %v", v)
	}
}

// TestRewards checks the errors of the endpoints of episodes.
func TestRewards(t *testing.T) {
	r := newRig(t, func(string) string { return "ok" }, nil)
	step := r.collect(1, rollout.Options{GroupSize: 1})
	r.say("s", "t", "q")
	for _, tt := range []struct {
		method, path, body string
		want               int
		says               string
	}{
		{"POST", "other/reward", `{"reward":1}`, 404, "no request had the header X-Session-Id: other"},
		{"GET", "other", ``, 404, ""},
		{"DELETE", "other", ``, 404, ""},
		{"POST", "s/reward", `{`, 400, "unexpected EOF"},
		{"POST", "s/reward", `[]`, 400, "it is an array"},
		{"POST", "s/reward", `{}`, 400, "must be a number"},
		{"POST", "s/reward", `{"reward":"1"}`, 400, "(true or false): reward is a string"},
		{"POST", "s/reward", `{"reward":[1]}`, 400, "(true or false): reward is an array"},
		{"POST", "s/reward", `{"reward":1,"final":true}`, 400, `: unknown field "final"`},
		{"POST", "s/reward", `{"reward":1,"done":false,"success":true}`, 400, ""},
		{"POST", "s/reward", `{"reward":2,"done":false}`, 200, ""},
		{"POST", "s/reward", `{"reward":0,"done":true}`, 200, ""},
		{"POST", "s/reward", `{"reward":0}`, 200, ""}, // sent again
		{"POST", "s/reward", `{"reward":1}`, 410, "its final reward is 0, with success = false"},
		{"POST", "s/reward", `{"reward":0,"success":true}`, 410, ""},
		{"DELETE", "s", ``, 200, ""}, // it stays collected
	} {
		if status, v := r.do(tt.method, "/v1/episodes/"+tt.path, tt.body); status != tt.want || !strings.Contains(fmt.Sprint(v), tt.says) {
			t.Errorf("%s %s %s: %d %v, want %d and %q", tt.method, tt.path, tt.body, status, v, tt.want, tt.says)
		}
	}
	ep := (<-step).episodes[0]
	for body, want := range map[string]int{`{"reward":0}`: 200, `{"reward":1}`: 410} { // the step has the episode
		if status, v := r.reward("s", body); status != want {
			t.Errorf("%s after the step: %d %v, want %d", body, status, v, want)
		}
	}
	if ep.Reward != 0 || ep.Outcome != data.Done || ep.Turns[0].Reward != 0 {
		t.Errorf("reward %v, outcome %s", ep.Reward, ep.Outcome)
	}
	step = r.collect(1, rollout.Options{GroupSize: 1})
	r.say("dropped", "t", "q")
	if status, v := r.do(http.MethodDelete, "/v1/episodes/dropped", ""); status != 200 || v["status"] != "dropped" {
		t.Errorf("DELETE: %d %v", status, v)
	}
	if status, v := r.reward("dropped", `{"reward":0}`); status != 410 || !strings.Contains(fmt.Sprint(v), "it was dropped: the agent dropped it") {
		t.Errorf("a reward after DELETE: %d %v", status, v)
	}
	r.say("kept", "t", "q")
	r.reward("kept", `{"reward":1}`)
	<-step
}

// TestSampling checks that requests cannot change the sampling of a run.
func TestSampling(t *testing.T) {
	for _, override := range []bool{false, true} {
		r := newRig(t, func(string) string { return "ok" }, func(o *Options) { o.Override = override })
		r.collect(1, rollout.Options{GroupSize: 1})
		for field, changes := range map[string]bool{
			`"temperature":0.5`: true, `"top_p":0.5`: true, `"top_k":5`: true, `"seed":1`: true,
			`"temperature":1`: false, `"top_p":1`: false, `"top_k":-1`: false, `"max_tokens":3`: false,
		} {
			want := 200
			if changes && !override {
				want = 400
			}
			if status, v := r.do(http.MethodPost, "/v1/chat/completions", `{"messages":`+conversation("q")+`,`+field+`}`, serve.SessionHeader, "s"); status != want {
				t.Errorf("%s with override = %v: %d %v, want %d", field, override, status, v, want)
			}
		}
		if status, v := r.do(http.MethodPost, "/v1/chat/completions", `{"messages":`+conversation("q")+`,"n":2}`, serve.SessionHeader, "s"); status != 400 {
			t.Errorf("two replies in a session: %d %v", status, v)
		}
		r.stop(nil)
	}
}

// TestFailures checks that a request that fails leaves its context as it was.
func TestFailures(t *testing.T) {
	r := newRig(t, func(string) string { return "ok" }, nil)
	step := r.collect(1, rollout.Options{GroupSize: 1})
	fail := func(on bool) {
		r.speaker.mu.Lock()
		defer r.speaker.mu.Unlock()
		if r.before = nil; on {
			r.before = func() error { return errors.New("broken") }
		}
	}
	ask := func(texts ...string) int {
		status, _ := r.do(http.MethodPost, "/v1/chat/completions", `{"messages":`+conversation(texts...)+`}`, serve.SessionHeader, "s")
		return status
	}
	fail(true)
	if status := ask("a"); status != 500 {
		t.Errorf("status %d", status)
	}
	if status, _ := r.reward("s", `{"reward":1}`); status != http.StatusConflict {
		t.Errorf("a reward without a reply: %d", status)
	}
	fail(false)
	ask("a")
	fail(true)
	ask("a", "ok", "b")
	fail(false)
	if status := ask("a", "ok", strings.Repeat("long", 100)); status != 400 {
		t.Errorf("a conversation beyond the context: %d", status)
	}
	ask("a", "ok", "c")
	r.reward("s", `{"reward":1}`)
	r.check((<-step).episodes[0], sys+you+"a"+me+"[ok<|im_end|>]\n"+you+"c"+me+"[ok<|im_end|>]")
}

// TestMemory checks that contexts that wait for their agents do not keep others out of the
// engine, which has room for three, and that they continue unchanged.
func TestMemory(t *testing.T) {
	r := newRig(t, func(c string) string { return fmt.Sprint("r", strings.Count(c, you)) }, nil)
	const n = 12
	step := r.collect(1, rollout.Options{GroupSize: n})
	for turn := range 3 {
		for i := range n { // all sessions take their turn before the next one begins
			texts := []string{"q"}
			for k := range turn {
				texts = append(texts, fmt.Sprint("r", k+1), "q")
			}
			r.say(fmt.Sprint("s", i), "t", texts...)
		}
	}
	for i := range n {
		r.reward(fmt.Sprint("s", i), `{"reward":1}`)
	}
	got := <-step
	if len(got.episodes) != n {
		t.Fatalf("%d episodes, want %d", len(got.episodes), n)
	}
	for _, ep := range got.episodes {
		r.check(ep, sys+you+"q"+me+"[r1<|im_end|>]\n"+you+"q"+me+"[r2<|im_end|>]\n"+you+"q"+me+"[r3<|im_end|>]")
	}
}

// TestManyAgents plays several steps with concurrent agents, some of which give up.
func TestManyAgents(t *testing.T) {
	r := newRig(t, func(c string) string { return fmt.Sprint("r", strings.Count(c, you)) }, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for worker := range 9 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				session := fmt.Sprintf("w%d-%d", worker, i)
				status, _ := r.do(http.MethodPost, "/v1/chat/completions", `{"messages":`+conversation("q")+`}`, serve.SessionHeader, session, serve.TaskHeader, fmt.Sprint("t", worker%3))
				if status != 200 {
					return
				}
				if (worker+i)%5 == 0 {
					r.do(http.MethodDelete, "/v1/episodes/"+session, "")
					continue
				}
				r.do(http.MethodPost, "/v1/chat/completions", `{"messages":`+conversation("q", "r1", "q")+`}`, serve.SessionHeader, session)
				r.reward(session, fmt.Sprintf(`{"reward":%d}`, i%2))
			}
		})
	}
	for step := range 4 {
		episodes, _, err := r.Collect(t.Context(), 3, rollout.Options{GroupSize: 4, Step: step})
		if len(episodes) != 12 || err != nil {
			t.Errorf("step %d: %d episodes, %v", step, len(episodes), err)
		}
		for _, ep := range episodes {
			r.check(ep, sys+you+"q"+me+"[r1<|im_end|>]\n"+you+"q"+me+"[r2<|im_end|>]")
		}
	}
	cancel()
	r.Close() // sessions that wait get an error
	wg.Wait()
	if r.engine.Stats().Open != 0 {
		t.Errorf("%d sessions are open in the engine", r.engine.Stats().Open)
	}
}
