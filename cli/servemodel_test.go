package cli

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/internal/readertest"
)

// TestServeModel serves a model to the Python client of OpenAI and compares log-probs with those of `model logprobs`.
func TestServeModel(t *testing.T) {
	dir := t.TempDir()
	link(t, tinyModel(t), dir, "my-model")
	url, _, interrupt := startCommand(t, dir, "serve", "my-model", "--listen", "127.0.0.1:0", "--max-sequences", "4", "--max-context-tokens", "300")
	out := readertest.Run(t, `
import concurrent.futures, json, sys
import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="-", max_retries=0, timeout=60)
assert [m.id for m in client.models.list()] == ["my-model"]
ask = dict(model="my-model", messages=[{"role": "user", "content": "Hello"}], max_tokens=20)
chat = client.chat.completions.create

r = chat(**ask, seed=5, n=2, logprobs=True, top_logprobs=2, extra_body={"return_token_ids": True})
again = chat(**ask, seed=5, n=2)
assert [c.message.content for c in r.choices] == [c.message.content for c in again.choices]
assert r.choices[0].token_ids != r.choices[1].token_ids

greedy = chat(**ask, temperature=0, logprobs=True, top_logprobs=1)
assert all(t.token == t.top_logprobs[0].token for t in greedy.choices[0].logprobs.content)
text = "".join(c.choices[0].delta.content or "" for c in chat(**ask, temperature=0, stream=True))
assert text == greedy.choices[0].message.content

with concurrent.futures.ThreadPoolExecutor(12) as pool:
    many = list(pool.map(lambda i: chat(**ask, seed=i).usage.completion_tokens, range(12)))
assert all(0 < n <= 20 for n in many)
try:
    chat(**{**ask, "max_tokens": 290})
    raise AssertionError("no error")
except openai.BadRequestError as e:
    assert e.code == "context_length_exceeded" and "300" in e.message

c = r.choices[0]
print(json.dumps({"ids": r.prompt_token_ids + c.token_ids, "logprobs": [t.logprob for t in c.logprobs.content]}))
`, url)
	var got struct {
		IDs      []int32
		LogProbs []float64
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	ts := newTestState(t, "model", "logprobs", "--model", "my-model")
	ts.Dir, ts.Stdin = dir, strings.NewReader(out)
	if code := Main(ts.State); code != 0 {
		t.Fatal(ts.err)
	}
	var want struct{ LogProbs []float64 }
	if err := json.Unmarshal([]byte(ts.out.String()), &want); err != nil {
		t.Fatal(err)
	}
	tail := want.LogProbs[len(want.LogProbs)-len(got.LogProbs):]
	for i, x := range got.LogProbs {
		if d := x - tail[i]; d > 1e-5 || d < -1e-5 {
			t.Errorf("log-prob %d is %v, `model logprobs` says %v", i, x, tail[i])
		}
	}
	if code := interrupt(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestServeModelRefuses checks the errors of the command line.
func TestServeModelRefuses(t *testing.T) {
	dir := t.TempDir()
	link(t, tinyModel(t), dir, "my-model")
	for _, tt := range []struct {
		name string
		args []string
		code errext.ExitCode
		want []string
	}{
		{"no model", nil, errext.Usage, []string{"RUN|MODEL"}},
		{"unknown model", []string{"other"}, errext.Model, []string{"other"}},
		{"a context beyond the model's", []string{"my-model", "--max-context-tokens", "5000"}, errext.Input, []string{"--max-context-tokens", "4096"}},
		{"no key for other machines", []string{"my-model", "--listen", "0.0.0.0:0", "--max-context-tokens", "64"}, errext.Env, []string{"OPENMANUS_API_KEY", "--no-api-key"}},
		{"key and no key", []string{"my-model", "--api-key", "k", "--no-api-key"}, errext.Usage, []string{"--no-api-key"}},
		{"limits", []string{"my-model", "--max-queue", "-1", "--request-timeout", "0s", "--max-sequences", "0"}, errext.Usage,
			[]string{"--max-queue", "--request-timeout", "--max-sequences"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, _, stderr := inProcess(t, dir, append([]string{"serve"}, tt.args...)...)
			if code != int(tt.code) {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			mustContain(t, "stderr", stderr, tt.want...)
		})
	}
}

// checkServeModel starts a documented server on a free port and requests the list of models.
func checkServeModel(t *testing.T, tiny string, args []string) {
	t.Helper()
	r := &docRun{dir: t.TempDir(), args: args}
	name := r.leading("my-model")[0]
	if strings.Contains(name, "|") { // RUN|MODEL
		r.args[0], name = "my-model", "my-model"
	}
	link(t, tiny, r.dir, name)
	url, _, interrupt := startCommand(t, r.dir, append([]string{"serve"}, append(r.args, "--listen", "127.0.0.1:0", "--max-context-tokens", "64")...)...)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Get(url + "/models")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(reply.Body).Decode(&list); err != nil || len(list.Data) == 0 || list.Data[0].ID != filepath.Base(name) {
		t.Errorf("models %+v (%v), want %s", list, err, name)
	}
	if code := interrupt(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
