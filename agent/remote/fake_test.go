package remote

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/agent/llm/chat"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/serve"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// speaker is an engine.Backend of bytes: reply returns the reply to a context, and every
// token has a log-prob that depends on its position.
type speaker struct {
	tok      *tokenizer.Tokenizer
	end      int32
	capacity int

	mu     sync.Mutex
	reply  func(context string) string
	before func() error // called in Step; may be nil
	seqs   map[engine.SeqID]*spoken
	fed    int // tokens that were computed
}

type spoken struct{ ids, left []int32 }

func (b *speaker) Capacity() int  { return b.capacity }
func (b *speaker) BlockSize() int { return 8 }
func (b *speaker) Version() int64 { return 5 }

func (b *speaker) Drop(id engine.SeqID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.seqs, id)
}

func (*speaker) Release(context.Context) error { return nil }
func (*speaker) Reserve(context.Context) error { return nil }

func (b *speaker) Step(_ context.Context, batch []engine.Work) ([]engine.Sampled, error) {
	b.mu.Lock()
	before := b.before
	b.mu.Unlock()
	if before != nil {
		if err := before(); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]engine.Sampled, len(batch))
	for i, w := range batch {
		s := b.seqs[w.Seq]
		if s == nil {
			s = &spoken{}
			if w.From != 0 {
				s.ids = append(s.ids, b.seqs[w.From].ids[:w.Pos]...)
			}
			b.seqs[w.Seq] = s
		}
		s.ids = append(s.ids[:w.Pos], w.Tokens...)
		b.fed += len(w.Tokens)
		if !w.Sample {
			continue
		}
		if len(s.left) == 0 || len(w.Tokens) > 1 { // a new turn
			s.left = append(b.tok.Encode(b.reply(b.tok.Decode(s.ids, false)), tokenizer.Options{}), b.end)
		}
		out[i] = engine.Sampled{Token: s.left[0], LogProb: logProbAt(len(s.ids))}
		s.left = s.left[1:]
	}
	return out, nil
}

// logProbAt is the log-prob of a token after n others.
func logProbAt(n int) float32 { return -float32(n%100+1) / 100 }

const template = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}" +
	"{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

// rig is a Store behind a Handler.
type rig struct {
	*Store
	*speaker
	t       *testing.T
	handler *serve.Handler
	engine  *engine.Scheduler
	stop    context.CancelCauseFunc
}

func newRig(t *testing.T, reply func(context string) string, set func(*Options)) *rig {
	t.Helper()
	tok, err := tokenizer.TrainBPE(nil, 258, []string{"<|im_start|>", "<|im_end|>"})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := chat.Parse(template)
	if err != nil {
		t.Fatal(err)
	}
	renderer, err := chat.NewRenderer(parsed, tok, map[string]any{"eos_token": "<|im_end|>"}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	end, _ := tok.TokenToID("<|im_end|>")
	r := &rig{t: t, speaker: &speaker{tok: tok, end: end, reply: reply, seqs: map[engine.SeqID]*spoken{}, capacity: 3 * 400}}
	if r.engine, err = engine.New(r.speaker, engine.Options{NewDecoder: renderer.Stream, ExpectTokens: 400}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.engine.Shutdown)
	var stop context.Context
	stop, r.stop = context.WithCancelCause(context.Background())
	t.Cleanup(func() { r.stop(nil) })
	o := Options{
		Engine: r.engine, Renderer: renderer, Tokenizer: tok, Temperature: 1, TopP: 1, MaxNew: 40, MaxContext: 400,
		Idle: time.Minute, Waiting: 10, Stop: stop,
	}
	if set != nil {
		set(&o)
	}
	if r.Store, err = New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	r.handler, err = serve.New(serve.Options{
		Engine: r.engine, Renderer: renderer, Tokenizer: tok, Names: []string{"m"}, MaxContext: 400, Concurrent: 8, Timeout: 10 * time.Second, Sessions: r.Store,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Register(r.handler)
	return r
}

// do sends a request and returns the status and the reply.
func (r *rig) do(method, path, body string, header ...string) (int, map[string]any) {
	r.t.Helper()
	req := httptest.NewRequestWithContext(r.t.Context(), method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	var v map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		r.t.Errorf("%s %s: %v in %s", method, path, err, w.Body)
	}
	return w.Code, v
}

// say sends messages, alternating between user and assistant after a system message, in a
// session, and returns the text of the reply.
func (r *rig) say(session, task string, texts ...string) string {
	r.t.Helper()
	status, v := r.do(http.MethodPost, "/v1/chat/completions", `{"messages":`+conversation(texts...)+`}`, serve.SessionHeader, session, serve.TaskHeader, task)
	if status != http.StatusOK {
		r.t.Errorf("session %s, %q: %d %v", session, texts, status, v)
		return ""
	}
	return v["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)["content"].(string)
}

func conversation(texts ...string) string {
	messages := []data.Message{{Role: "system", Content: "be brief"}}
	for i, text := range texts {
		messages = append(messages, data.Message{Role: []string{"user", "assistant"}[i%2], Content: text})
	}
	b, err := json.Marshal(messages)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// reward posts the reward of a session and returns the status and the reply.
func (r *rig) reward(session, body string) (int, map[string]any) {
	r.t.Helper()
	return r.do(http.MethodPost, "/v1/episodes/"+session+"/reward", body)
}

// collected is the result of Collect.
type collectedStep struct {
	episodes []*data.Episode
	stats    rollout.Stats
	err      error
}

// collect starts a step and returns when it admits sessions.
func (r *rig) collect(groups int, o rollout.Options) <-chan collectedStep {
	r.t.Helper()
	out := make(chan collectedStep, 1)
	go func() {
		episodes, stats, err := r.Collect(context.Background(), groups, o)
		out <- collectedStep{episodes, stats, err}
	}()
	r.until("the step begins", func() bool { return r.step != nil })
	return out
}

// until waits until a condition on the Store holds.
func (r *rig) until(what string, holds func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		r.Store.mu.Lock()
		ok := holds()
		r.Store.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: it did not happen", what)
		}
	}
}
