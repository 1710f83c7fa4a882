package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/engine"
)

const hello = `"messages":[{"role":"user","content":"hello"}]`

// TestChat checks every field of a whole reply.
func TestChat(t *testing.T) {
	s := serve(t, says("hé!"), nil)
	status, header, body := s.post(t, "/v1/chat/completions",
		`{"model":"parrot",`+hello+`,"logprobs":true,"top_logprobs":2,"return_token_ids":true,"seed":4,"user":"u","response_format":{"type": "text"},"tools":null}`)
	if status != 200 || header.Get("Content-Type") != "application/json" {
		t.Fatalf("status %d, header %v, body %s", status, header, body)
	}
	ids := func(text string) []any {
		var list []any
		for _, id := range s.tok.Encode(text, noOptions) {
			list = append(list, float64(id))
		}
		return list
	}
	token := func(text string, b byte, id int32, logProb float64) map[string]any {
		entry := func(text string, b []any, logProb float64) map[string]any {
			return map[string]any{"token": text, "bytes": b, "logprob": logProb}
		}
		e := entry(text, []any{float64(b)}, logProb)
		other := s.tok.Bytes(id + 1)
		e["top_logprobs"] = []any{e2(e), entry(s.tok.Decode([]int32{id + 1}, false), numbers(other), logProb-1)}
		return e
	}
	id := func(i int) int32 { return s.tok.Encode("hé!", noOptions)[i] }
	end := token("<|im_end|>", 0, s.end, -0.125)
	end["bytes"] = numbers([]byte("<|im_end|>"))
	end["top_logprobs"] = []any{e2(end), map[string]any{"token": "\x00", "bytes": []any{0.}, "logprob": -1.125}}
	want := map[string]any{
		"object": "chat.completion", "model": "parrot", "system_fingerprint": "weights-3",
		"prompt_token_ids": ids("<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"),
		"usage":            map[string]any{"prompt_tokens": 24., "completion_tokens": 5., "total_tokens": 29.},
		"choices": []any{map[string]any{
			"index": 0., "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": "hé!"},
			"token_ids": ids("hé!<|im_end|>"),
			"logprobs": map[string]any{"refusal": nil, "content": []any{
				token("h", 'h', id(0), -.625), token("\ufffd", 0xc3, id(1), -.5), token("\ufffd", 0xa9, id(2), -.375), token("!", '!', id(3), -.25), end,
			}},
		}},
	}
	if diff := cmp.Diff(want, decoded(t, body)); diff != "" {
		t.Errorf("reply: -want +got:\n%s", diff)
	}
}

// e2 returns the entry of a token as one of the most probable ones.
func e2(e map[string]any) map[string]any {
	return map[string]any{"token": e["token"], "bytes": e["bytes"], "logprob": e["logprob"]}
}

func numbers(b []byte) []any {
	list := []any{}
	for _, x := range b {
		list = append(list, float64(x))
	}
	return list
}

// TestStream checks that the parts of streams add up to the whole reply.
func TestStream(t *testing.T) {
	s := serve(t, says("go né</act>more"), nil)
	for _, tt := range []struct{ name, fields, text, finish string }{
		{"plain", ``, "go né</act>more", "stop"},
		{"stop string", `,"stop":"</act>"`, "go né", "stop"},
		{"several stops", `,"stop":["</ac>","né"]`, "go ", "stop"},
		{"length", `,"max_tokens":5`, "go n\ufffd", "length"},
		{"ids", `,"return_token_ids":true,"logprobs":true,"stop":"</act>"`, "go né", "stop"},
		{"two replies", `,"n":2,"temperature":0`, "go né</act>more", "stop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, whole := s.post(t, "/v1/chat/completions", `{`+hello+tt.fields+`}`)
			status, header, body := s.post(t, "/v1/chat/completions", `{`+hello+tt.fields+`,"stream":true,"stream_options":{"include_usage":true}}`)
			if status != 200 || header.Get("Content-Type") != "text/event-stream" {
				t.Fatalf("status %d, header %v", status, header)
			}
			list := chunks(t, body)
			last := list[len(list)-1]
			reply := decoded(t, whole)
			if diff := cmp.Diff(reply["usage"], last["usage"]); diff != "" || len(last["choices"].([]any)) > 0 {
				t.Errorf("usage of the whole and of the stream: %s", diff)
			}
			for _, c := range reply["choices"].([]any) {
				c := c.(map[string]any)
				text, finish, ids, logprobs := "", any(nil), []any(nil), []any(nil)
				first := true
				for _, chunk := range list[:len(list)-1] {
					part := chunk["choices"].([]any)[0].(map[string]any)
					if part["index"] != c["index"] {
						continue
					}
					delta := part["delta"].(map[string]any)
					if chunk["object"] != "chat.completion.chunk" || chunk["usage"] != nil || (delta["role"] == "assistant") != first || finish != nil {
						t.Errorf("chunk %v", chunk)
					}
					if _, has := chunk["prompt_token_ids"]; has != (first && strings.Contains(tt.fields, "token_ids")) {
						t.Errorf("chunk %v: prompt_token_ids must be in the first chunk only", chunk)
					}
					first = false
					if piece, ok := delta["content"].(string); ok {
						text += piece
					}
					if list, ok := part["token_ids"].([]any); ok {
						ids = append(ids, list...)
					}
					if l, ok := part["logprobs"].(map[string]any); ok {
						logprobs = append(logprobs, l["content"].([]any)...)
					}
					finish = part["finish_reason"]
				}
				if text != tt.text || finish != tt.finish || c["finish_reason"] != tt.finish || c["message"].(map[string]any)["content"] != tt.text {
					t.Errorf("the stream says %q (%v), the whole %v; want %q", text, finish, c, tt.text)
				}
				if list, _ := c["token_ids"].([]any); !cmp.Equal(list, ids) {
					t.Errorf("token ids %v in the stream, want %v", ids, list)
				}
				if l, _ := c["logprobs"].(map[string]any); l != nil && !cmp.Equal(l["content"], any(logprobs)) {
					t.Errorf("log-probs %v in the stream, want %v", logprobs, l["content"])
				}
			}
		})
	}
}

// TestCompletions checks the forms of prompts and the older form of log-probs.
func TestCompletions(t *testing.T) {
	s := serve(t, func(prompt string, w engine.Work) string { return fmt.Sprintf("<%s>%d", prompt, w.Draw.Sample) }, nil)
	texts := func(body string) (list []string) {
		for _, c := range decoded(t, body)["choices"].([]any) {
			list = append(list, c.(map[string]any)["text"].(string))
		}
		return list
	}
	for _, tt := range []struct {
		prompt string
		want   []string
	}{
		{`"ab"`, []string{"<ab>0", "<ab>1"}},
		{`["ab","c"]`, []string{"<ab>0", "<ab>1", "<c>2", "<c>3"}},
		{fmt.Sprint(strings.ReplaceAll(fmt.Sprint(s.tok.Encode("xy", noOptions)), " ", ",")), []string{"<xy>0", "<xy>1"}},
		{`[` + strings.ReplaceAll(fmt.Sprint(s.tok.Encode("xy", noOptions)), " ", ",") + `]`, []string{"<xy>0", "<xy>1"}},
	} {
		status, _, body := s.post(t, "/v1/completions", `{"prompt":`+tt.prompt+`,"n":2,"max_tokens":20}`)
		if status != 200 {
			t.Fatalf("prompt %s: %d %s", tt.prompt, status, body)
		}
		if diff := cmp.Diff(tt.want, texts(body)); diff != "" {
			t.Errorf("prompt %s: -want +got:\n%s", tt.prompt, diff)
		}
	}
	_, _, body := s.post(t, "/v1/completions", `{"prompt":"a","logprobs":1,"max_tokens":3,"return_token_ids":true}`)
	want := map[string]any{
		"object": "text_completion", "model": "parrot", "system_fingerprint": "weights-3",
		"usage": map[string]any{"prompt_tokens": 1., "completion_tokens": 3., "total_tokens": 4.},
		"choices": []any{map[string]any{
			"index": 0., "text": "<a>", "finish_reason": "length",
			"token_ids": []any{float64(s.tok.Encode("<", noOptions)[0]), float64(s.tok.Encode("a", noOptions)[0]), float64(s.tok.Encode(">", noOptions)[0])}, "prompt_token_ids": []any{float64(s.tok.Encode("a", noOptions)[0])},
			"logprobs": map[string]any{
				"tokens": []any{"<", "a", ">"}, "token_logprobs": []any{-.625, -.5, -.375}, "text_offset": []any{0., 1., 2.},
				"top_logprobs": []any{map[string]any{"<": -.625}, map[string]any{"a": -.5}, map[string]any{">": -.375}},
			},
		}},
	}
	if diff := cmp.Diff(want, decoded(t, body)); diff != "" {
		t.Errorf("reply: -want +got:\n%s", diff)
	}
	_, _, body = s.post(t, "/v1/completions", `{"prompt":["ab","c"],"stream":true,"max_tokens":20}`)
	streamed := map[float64]string{}
	for _, chunk := range chunks(t, body) {
		c := chunk["choices"].([]any)[0].(map[string]any)
		streamed[c["index"].(float64)] += c["text"].(string)
	}
	if diff := cmp.Diff(map[float64]string{0: "<ab>0", 1: "<c>1"}, streamed); diff != "" {
		t.Errorf("streamed texts: -want +got:\n%s", diff)
	}
}

// TestSampling checks that the sampling fields reach the engine.
func TestSampling(t *testing.T) {
	for _, tt := range []struct {
		name, fields string
		want         engine.Work
	}{
		{"defaults", ``, engine.Work{Temperature: 1, TopP: 1}},
		{"all", `,"temperature":0.5,"top_p":0.75,"top_k":7`, engine.Work{Temperature: .5, TopP: .75, TopK: 7}},
		{"greedy", `,"temperature":0`, engine.Work{Temperature: 1, TopP: 1, Greedy: true}},
		{"off", `,"top_p":1,"top_k":-1`, engine.Work{Temperature: 1, TopP: 1}},
	} {
		var got engine.Work
		s := serve(t, func(_ string, w engine.Work) string { got = w; return "x" }, nil)
		if status, _, body := s.post(t, "/v1/chat/completions", `{`+hello+tt.fields+`}`); status != 200 {
			t.Fatalf("%s: %d %s", tt.name, status, body)
		}
		got = engine.Work{Temperature: got.Temperature, TopP: got.TopP, TopK: got.TopK, Greedy: got.Greedy}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
	}
	seeds := map[uint64]bool{}
	s := serve(t, func(_ string, w engine.Work) string { seeds[w.Draw.Seed] = true; return "x" }, nil)
	for range 3 {
		s.post(t, "/v1/chat/completions", `{`+hello+`,"seed":-5}`)
	}
	if len(seeds) != 1 {
		t.Errorf("three requests with one seed drew with %d seeds", len(seeds))
	}
	s.post(t, "/v1/chat/completions", `{`+hello+`}`)
	s.post(t, "/v1/chat/completions", `{`+hello+`}`)
	if len(seeds) != 3 {
		t.Errorf("two requests without a seed must draw with other seeds: %v", seeds)
	}
}

// TestRefusals checks the status, the type, the field and the message of errors.
func TestRefusals(t *testing.T) {
	s := serve(t, says("x"), func(o *Options, _ *actor) { o.MaxBody = 4000 })
	long := strings.Repeat("x", 600)
	for _, tt := range []struct {
		path, body string
		status     int
		param      any
		message    string
	}{
		{"chat/completions", `{`, 400, nil, "not a JSON object"},
		{"chat/completions", `null`, 400, nil, "null"},
		{"chat/completions", `[]`, 400, nil, "not a JSON object: it is an array"},
		{"chat/completions", `{}`, 400, "messages", "at least one message"},
		{"chat/completions", `{"messages":[]}`, 400, "messages", "at least one message"},
		{"chat/completions", `{"messages":"x"}`, 400, "messages", "wrong type: it is a string"},
		{"chat/completions", `{"messages":["x"]}`, 400, "messages[0]", "messages[0]: a message is an object with role and content: it is a string"},
		{"chat/completions", `{"messages":[{"role":5}]}`, 400, "messages[0]", "role is a number"},
		{"chat/completions", `{` + hello + `,"stream":true,"stream_options":{"include_usage":1}}`, 400, "stream_options", "include_usage is a number"},
		{"chat/completions", `{"messages":[{"role":"user"}]}`, 400, "messages[0]", "content"},
		{"chat/completions", `{"messages":[{"role":"user","content":"a"},{"role":"robot","content":"a"}]}`, 400, "messages[1]", "robot"},
		{"chat/completions", `{"messages":[{"role":"tool","content":"a","tool_call_id":"1"}]}`, 400, "messages[0]", "role user"},
		{"chat/completions", `{"messages":[{"role":"assistant","content":null,"tool_calls":[{}]}]}`, 400, "messages[0]", "tool calls"},
		{"chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400, "messages[0]", "image_url"},
		{"chat/completions", `{` + hello + `,"model":"gpt-4"}`, 404, "model", "parrot"},
		{"chat/completions", `{` + hello + `,"temperature":2.5}`, 400, "temperature", "2.5"},
		{"chat/completions", `{` + hello + `,"temperature":"hot"}`, 400, "temperature", "type"},
		{"chat/completions", `{` + hello + `,"top_p":0}`, 400, "top_p", "0"},
		{"chat/completions", `{` + hello + `,"top_k":-2}`, 400, "top_k", "-2"},
		{"chat/completions", `{` + hello + `,"n":0}`, 400, "n", "0"},
		{"chat/completions", `{` + hello + `,"n":9}`, 400, "n", "8 at once"},
		{"chat/completions", `{` + hello + `,"max_tokens":0}`, 400, "max_tokens", "0"},
		{"chat/completions", `{` + hello + `,"max_tokens":3,"max_completion_tokens":4}`, 400, "max_completion_tokens", "3"},
		{"chat/completions", `{` + hello + `,"max_tokens":500}`, 400, nil, "512 tokens, but the prompt has 24 tokens and the reply may have 500"},
		{"chat/completions", `{"messages":[{"role":"user","content":"` + long + `"}]}`, 400, nil, "the prompt has 619 tokens"},
		{"chat/completions", `{` + hello + `,"stop":[""]}`, 400, "stop", "empty"},
		{"chat/completions", `{` + hello + `,"stop":3}`, 400, "stop", "list of strings"},
		{"chat/completions", `{` + hello + `,"top_logprobs":2}`, 400, "top_logprobs", "logprobs = true"},
		{"chat/completions", `{` + hello + `,"logprobs":true,"top_logprobs":21}`, 400, "top_logprobs", "21"},
		{"chat/completions", `{` + hello + `,"stream_options":{"include_usage":true}}`, 400, "stream_options", "stream"},
		{"chat/completions", `{` + hello + `,"tools":[{"type":"function"}]}`, 400, "tools", "tool calls"},
		{"chat/completions", `{` + hello + `,"response_format":{"type":"json_object"}}`, 400, "response_format", "json_object"},
		{"chat/completions", `{` + hello + `,"frequency_penalty":0.5}`, 400, "frequency_penalty", "0.5"},
		{"chat/completions", `{` + hello + `,"logit_bias":{"5":1}}`, 400, "logit_bias", "5"},
		{"chat/completions", `{` + hello + `,"min_tokens":5}`, 400, "min_tokens", "does not know"},
		{"chat/completions", `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 5000) + `"}]}`, 413, nil, "4000 bytes"},
		{"completions", `{}`, 400, "prompt", "prompt must be"},
		{"completions", `{"prompt":""}`, 400, "prompt", "empty"},
		{"completions", `{"prompt":[]}`, 400, "prompt", "0 prompts"},
		{"completions", `{"prompt":[300]}`, 400, "prompt", "300"},
		{"completions", `{"prompt":[[1],[]]}`, 400, "prompt", "prompt 1 is empty"},
		{"completions", `{"prompt":{"a":1}}`, 400, "prompt", "prompt must be"},
		{"completions", `{"prompt":"x","logprobs":true}`, 400, "logprobs", "number"},
		{"completions", `{"prompt":"x","logprobs":21}`, 400, "logprobs", "21"},
		{"completions", `{"prompt":"x","echo":true}`, 400, "echo", "true"},
		{"completions", `{"prompt":"x","best_of":3}`, 400, "best_of", "3"},
		{"completions", `{"prompt":["x","x","x"],"n":3}`, 400, "n", "9 replies"},
		{"embeddings", `{}`, 404, nil, "no such endpoint"},
	} {
		status, _, body := s.post(t, "/v1/"+tt.path, tt.body)
		e, _ := decoded(t, body)["error"].(map[string]any)
		message, _ := e["message"].(string)
		if status != tt.status || e["param"] != tt.param || !strings.Contains(message, tt.message) || e["type"] != "invalid_request_error" {
			t.Errorf("%s %.80s: status %d, %v; want %d, param %v and %q", tt.path, tt.body, status, e, tt.status, tt.param, tt.message)
		}
	}
	if status, _, body := s.post(t, "/chat/completions", `{}`); status != 404 || !strings.Contains(string(body), "the base_url of a client is http://127.0.0.1") {
		t.Errorf("a path without /v1: status %d, %s", status, body)
	}
	for _, tt := range []struct {
		name, header, value string
		status              int
	}{
		{"a form", "Content-Type", "application/x-www-form-urlencoded", 415},
		{"a session", SessionHeader, "a", 400},
		{"a task", TaskHeader, "a", 400},
	} {
		if status, _, body := s.post(t, "/v1/chat/completions", `{`+hello+`}`, tt.header, tt.value); status != tt.status || !strings.Contains(body, tt.header) {
			t.Errorf("%s: %d %s, want %d", tt.name, status, body, tt.status)
		}
	}
	if got := s.handler.Stats(); got.Requests != 0 || got.Failed == 0 {
		t.Errorf("stats %+v", got)
	}
}

func TestKey(t *testing.T) {
	s := serve(t, says("x"), func(o *Options, _ *actor) { o.APIKey = "secret" })
	for _, tt := range []struct {
		key  string
		want int
	}{{"Bearer secret", 200}, {"Bearer other", 401}, {"Bearer ", 401}, {"secret", 200}} {
		if status, _, body := s.post(t, "/v1/chat/completions", `{`+hello+`}`, "Authorization", tt.key); status != tt.want {
			t.Errorf("key %q: %d %s, want %d", tt.key, status, body, tt.want)
		}
	}
	reply, err := http.Get(s.URL + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if b, _ := io.ReadAll(reply.Body); reply.StatusCode != 200 || !strings.Contains(string(b), "ok") {
		t.Errorf("health without a key: %d %s", reply.StatusCode, b)
	}
	if all, err := Listen(t.Context(), "0.0.0.0:0", s.handler, false); err != nil {
		t.Errorf("listen on all addresses with a key: %v", err)
	} else if err := all.Close(t.Context()); err != nil {
		t.Error(err)
	}
	open := serve(t, says("x"), nil)
	if _, err := Listen(t.Context(), "0.0.0.0:0", open.handler, false); !errors.Is(err, ErrNoKey) {
		t.Errorf("listen on all addresses without a key: %v, want ErrNoKey", err)
	}
}

// held makes the steps of an actor wait until release is closed.
func held(o *actor) (release chan struct{}, waiting chan struct{}) {
	release, waiting = make(chan struct{}), make(chan struct{}, 1000)
	o.before = func([]engine.Work) error {
		waiting <- struct{}{}
		<-release
		return nil
	}
	return release, waiting
}

// TestQueue checks that requests wait for places, that a full queue is refused, and that
// many requests share batches.
func TestQueue(t *testing.T) {
	var release, waiting chan struct{}
	s := serve(t, says("some words"), func(o *Options, a *actor) {
		o.Concurrent, o.Queue = 3, 2
		release, waiting = held(a)
	})
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if status, _, body := s.post(t, "/v1/chat/completions", `{`+hello+`}`); status != 200 {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	for <-waiting; s.handler.Stats().Waiting < 2 || s.handler.Stats().Running < 3; {
		time.Sleep(time.Millisecond)
	}
	status, header, body := s.post(t, "/v1/chat/completions", `{`+hello+`}`)
	if e := decoded(t, body)["error"].(map[string]any); status != 429 || header.Get("Retry-After") != "1" || e["code"] != "rate_limit_exceeded" {
		t.Errorf("a request beyond the queue: %d %v %s", status, header, body)
	}
	close(release)
	wg.Wait()
	if s.most != 3 {
		t.Errorf("the largest batch had %d replies, want 3", s.most)
	}
}

// TestClientLeaves checks that the engine stops for clients that left.
func TestClientLeaves(t *testing.T) {
	var release, waiting chan struct{}
	s := serve(t, says(strings.Repeat("word ", 50)), func(_ *Options, a *actor) { release, waiting = held(a) })
	for i, stream := range []string{"", `,"stream":true`} {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions", strings.NewReader(`{`+hello+stream+`}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		ended := make(chan error, 1)
		go func() {
			reply, err := http.DefaultClient.Do(req)
			if err == nil {
				_, err = io.ReadAll(reply.Body)
				reply.Body.Close()
			}
			ended <- err
		}()
		<-waiting
		release <- struct{}{}
		<-waiting
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the client got %v", err)
		}
		for s.handler.Stats().Left <= int64(i) {
			time.Sleep(time.Millisecond)
		}
		release <- struct{}{}
		for s.live() > 0 || s.handler.Stats().Running > 0 {
			time.Sleep(time.Millisecond)
		}
	}
	close(release)
}

// TestTimeLimit checks the error of a request that takes too long, whole and in a stream.
func TestTimeLimit(t *testing.T) {
	var release, waiting chan struct{}
	s := serve(t, says(strings.Repeat("word ", 50)), func(o *Options, a *actor) {
		o.Timeout = 50 * time.Millisecond
		release, waiting = held(a)
	})
	status, _, body := s.post(t, "/v1/chat/completions", `{`+hello+`}`)
	if status != 504 || !strings.Contains(body, "time limit") {
		t.Errorf("%d %s", status, body)
	}
	<-waiting
	close(release)
}

// TestBackendFails checks that a failure of the engine is sent as the last event of a stream.
func TestBackendFails(t *testing.T) {
	begun, steps := make(chan struct{}), 0
	s := serve(t, says("word word"), func(_ *Options, a *actor) {
		a.before = func([]engine.Work) error {
			if steps++; steps > 3 {
				<-begun
				return errors.New("out of memory")
			}
			return nil
		}
	})
	reply, err := http.Post(s.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{`+hello+`,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	close(begun) // the header and the first event have arrived
	body, err := io.ReadAll(reply.Body)
	if err != nil || !strings.Contains(string(body), `"error":{"message":"engine step 4`) || strings.Contains(string(body), "[DONE]") || reply.StatusCode != 200 {
		t.Errorf("%d %s %v", reply.StatusCode, body, err)
	}
	if status, _, body := s.post(t, "/v1/chat/completions", `{`+hello+`}`); status != 500 || !strings.Contains(body, "out of memory") {
		t.Errorf("%d %s", status, body)
	}
}

// TestSharedPrompt checks that the replies to one prompt compute it once.
func TestSharedPrompt(t *testing.T) {
	var release, waiting chan struct{}
	s := serve(t, says("x"), func(_ *Options, a *actor) { release, waiting = held(a) })
	content := strings.Repeat("a", 200)
	go func() {
		<-waiting
		for s.handler.o.Engine.(*engine.Scheduler).Stats().Active < 8 {
			time.Sleep(time.Millisecond)
		}
		close(release)
	}()
	s.post(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"`+content+`"}],"n":8,"max_tokens":4}`)
	if s.fed > 400 || s.shared < 7*200 {
		t.Errorf("%d tokens were computed and %d were shared by 8 replies to a prompt of 225 tokens", s.fed, s.shared)
	}
}

// TestClose checks that a server ends after its running requests, or breaks them off.
func TestClose(t *testing.T) {
	for _, patient := range []bool{true, false} {
		t.Run(fmt.Sprint(patient), func(t *testing.T) {
			var release, waiting chan struct{}
			var log bytes.Buffer
			s := serve(t, says("ok"), func(o *Options, a *actor) {
				release, waiting = held(a)
				o.Log = slog.New(slog.NewTextHandler(&log, nil))
			})
			type answer struct {
				status int
				body   string
			}
			answers := make(chan answer, 1)
			go func() {
				status, _, body := s.post(t, "/v1/chat/completions", `{`+hello+`}`)
				answers <- answer{status, body}
			}()
			<-waiting
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if !patient {
				cancel()
			}
			defer cancel()
			closed := make(chan error, 1)
			go func() { closed <- s.Close(ctx) }()
			for s.handler.ending.Load() == nil {
				time.Sleep(time.Millisecond)
			}
			if patient {
				close(release)
			} else {
				defer close(release)
			}
			a := <-answers
			if err := <-closed; err != nil {
				t.Errorf("Close: %v", err)
			}
			if want := map[bool]int{true: 200, false: 503}[patient]; a.status != want {
				t.Errorf("the running request got %d %s, want %d", a.status, a.body, want)
			}
			if _, err := http.Get(s.URL + "/health"); err == nil {
				t.Error("the closed server answers")
			}
			if log.Len() > 0 {
				t.Errorf("the end of a server needs no warnings:\n%s", &log)
			}
		})
	}
}
