package serve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/internal/readertest"
)

// TestOfficialClient uses the server with the Python client of OpenAI.
func TestOfficialClient(t *testing.T) {
	var release chan struct{}
	s := serve(t, func(prompt string, w engine.Work) string {
		return fmt.Sprintf("reply %d to %s", w.Draw.Sample, prompt[strings.LastIndex(prompt, "user\n")+5:strings.LastIndex(prompt, "<|im_end|>")])
	}, func(o *Options, a *actor) { o.APIKey = "secret" })
	busy := serve(t, says("x"), func(o *Options, a *actor) {
		o.Concurrent, o.Queue = 1, 0
		release, _ = held(a)
	})
	defer close(release)
	readertest.Run(t, `
import sys, threading, time
import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="secret", max_retries=0, timeout=20)
assert [m.id for m in client.models.list()] == ["parrot"]
assert client.models.retrieve("parrot").owned_by == "openmanus"
ask = dict(model="parrot", messages=[{"role": "user", "content": "hello"}])

r = client.chat.completions.create(**ask, n=3, temperature=0.5, seed=1, user="u")
assert sorted(c.message.content for c in r.choices) == [f"reply {i} to hello" for i in range(3)], r
assert r.choices[0].finish_reason == "stop" and r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens

r = client.chat.completions.create(**ask, logprobs=True, top_logprobs=3, max_completion_tokens=5)
c = r.choices[0]
assert c.finish_reason == "length" and c.message.content == "reply"
assert [t.token for t in c.logprobs.content] == list("reply") and all(len(t.top_logprobs) == 3 for t in c.logprobs.content)
assert bytes(c.logprobs.content[0].bytes) == b"r" and c.logprobs.content[0].logprob == c.logprobs.content[0].top_logprobs[0].logprob

r = client.chat.completions.create(**ask, stop=[" to"], extra_body={"return_token_ids": True, "top_k": 5})
assert r.choices[0].message.content == "reply 0" and len(r.choices[0].token_ids) == len("reply 0 to"), r
assert len(r.prompt_token_ids) == r.usage.prompt_tokens

text, finish, usage = "", None, None
for chunk in client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}, stop="hel"):
    if chunk.usage:
        usage = chunk.usage
    for c in chunk.choices:
        text += c.delta.content or ""
        finish = c.finish_reason or finish
assert (text, finish) == ("reply 0 to ", "stop") and usage.completion_tokens == len("reply 0 to hel"), (text, finish, usage)

parts = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
r = client.chat.completions.create(model="parrot", messages=[{"role": "developer", "content": "be brief"}, {"role": "user", "content": parts}])
assert r.choices[0].message.content == "reply 0 to hello"

prompt = "user\nab<|im_end|>"
r = client.completions.create(model="parrot", prompt=[prompt, prompt], logprobs=2, max_tokens=60)
assert [c.text for c in r.choices] == ["reply 0 to ab", "reply 1 to ab"]
l = r.choices[0].logprobs
assert "".join(l.tokens) == "reply 0 to ab<|im_end|>" and len(l.token_logprobs) == len(l.text_offset) == len(l.top_logprobs)
assert "".join(c.choices[0].text for c in client.completions.create(model="parrot", prompt=prompt, max_tokens=60, stream=True)) == "reply 0 to ab"

def fails(kind, f, **more):
    try:
        f()
    except kind as e:
        for name, want in more.items():
            assert getattr(e, name) == want, (name, getattr(e, name), want)
        return e
    raise AssertionError(f"no {kind}")

chat = client.chat.completions.create
fails(openai.NotFoundError, lambda: chat(model="other", messages=ask["messages"]), code="model_not_found", param="model")
fails(openai.BadRequestError, lambda: chat(**ask, temperature=3), param="temperature", type="invalid_request_error")
fails(openai.BadRequestError, lambda: chat(**ask, max_tokens=10000), code="context_length_exceeded")
fails(openai.BadRequestError, lambda: chat(**ask, tools=[{"type": "function", "function": {"name": "f"}}]), param="tools")
fails(openai.AuthenticationError, lambda: openai.OpenAI(base_url=sys.argv[1], api_key="wrong", max_retries=0).models.list(), code="invalid_api_key")

other = openai.OpenAI(base_url=sys.argv[2], api_key="-", max_retries=0, timeout=20)
def leave():
    while True:
        try:
            other.chat.completions.create(**ask, timeout=3)
        except openai.RateLimitError:
            time.sleep(0.05)
        except openai.APITimeoutError:
            return
thread = threading.Thread(target=leave)
thread.start()
limited = None
for _ in range(30):  # until the thread's request has the only place
    try:
        other.chat.completions.create(**ask, timeout=0.3)
    except openai.APITimeoutError:
        time.sleep(0.1)
    except openai.RateLimitError as e:
        limited = e
        break
assert limited and limited.code == "rate_limit_exceeded" and limited.response.headers["retry-after"] == "1"
thread.join()
`, s.URL+"/v1", busy.URL+"/v1")
}
