package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/agent/llm/chat"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// actor is an engine.Backend that speaks given replies, one byte a token.
type actor struct {
	reply  func(prompt string, w engine.Work) string // the reply to a prompt; it ends with the stop token
	before func(batch []engine.Work) error           // called in Step; may be nil
	tok    *tokenizer.Tokenizer
	end    int32

	mu     sync.Mutex
	seqs   map[engine.SeqID]*spokenSeq
	most   int // largest batch
	shared int // tokens copied from other sequences
	fed    int // tokens that were computed
}

type spokenSeq struct {
	ids  []int32
	left []int32 // the rest of the reply; nil before the first token
}

func (a *actor) Capacity() int  { return 1 << 16 }
func (a *actor) BlockSize() int { return 8 }
func (a *actor) Version() int64 { return 3 }

func (a *actor) Drop(id engine.SeqID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.seqs, id)
}

func (a *actor) live() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seqs)
}

func (*actor) Release(context.Context) error { return nil }
func (*actor) Reserve(context.Context) error { return nil }

func (a *actor) Step(_ context.Context, batch []engine.Work) ([]engine.Sampled, error) {
	if a.before != nil {
		if err := a.before(batch); err != nil {
			return nil, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.most = max(a.most, len(batch))
	out := make([]engine.Sampled, len(batch))
	for i, w := range batch {
		s := a.seqs[w.Seq]
		if s == nil {
			s = &spokenSeq{}
			if w.From != 0 {
				s.ids = append(s.ids, a.seqs[w.From].ids[:w.Pos]...)
				a.shared += w.Pos
			}
			a.seqs[w.Seq] = s
		}
		s.ids = append(s.ids[:w.Pos], w.Tokens...)
		a.fed += len(w.Tokens)
		if !w.Sample {
			continue
		}
		if len(s.left) == 0 {
			s.left = append(a.tok.Encode(a.reply(a.tok.Decode(s.ids, false), w), tokenizer.Options{}), a.end)
		}
		out[i] = engine.Sampled{Token: s.left[0], LogProb: -float32(len(s.left)) / 8}
		for j := range w.Top {
			out[i].Top = append(out[i].Top, engine.Candidate{ID: s.left[0] + int32(j), LogProb: out[i].LogProb - float32(j)})
		}
		s.left = s.left[1:]
	}
	return out, nil
}

const template = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}" +
	"{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

// server is a running Server over an actor.
type server struct {
	*Server
	*actor
	handler *Handler
	key     string
}

// serve starts a server. The function set changes its options.
func serve(t *testing.T, reply func(prompt string, w engine.Work) string, set func(*Options, *actor)) *server {
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
	a := &actor{reply: reply, tok: tok, end: end, seqs: map[engine.SeqID]*spokenSeq{}}
	o := Options{Renderer: renderer, Tokenizer: tok, Names: []string{"parrot"}, MaxContext: 512, Concurrent: 8, Queue: 2, Timeout: time.Minute, Version: a.Version}
	if set != nil {
		set(&o, a)
	}
	s, err := engine.New(a, engine.Options{NewDecoder: renderer.Stream})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	o.Engine = s
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	run, err := Listen(t.Context(), "127.0.0.1:0", h, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = run.Close(ctx) // tests that care close the server themselves
		http.DefaultClient.CloseIdleConnections()
	})
	return &server{Server: run, actor: a, handler: h, key: o.APIKey}
}

// says returns a reply that does not depend on the prompt.
func says(text string) func(string, engine.Work) string {
	return func(string, engine.Work) string { return text }
}

// post sends a request and returns the status, the header and the body of the reply.
func (s *server) post(t *testing.T, path, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, reply.Header, string(b)
}

// decoded returns a reply as a value, with the fields that differ between runs removed.
func decoded(t *testing.T, body string) map[string]any {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader([]byte(body)))
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	delete(v, "id")
	delete(v, "created")
	return v
}

// chunks returns the data of the events of a stream, without the last one, which must be [DONE].
func chunks(t *testing.T, body string) []map[string]any {
	t.Helper()
	var list []map[string]any
	events := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
	for i, e := range events {
		text, found := strings.CutPrefix(e, "data: ")
		if last := i == len(events)-1; !found || last != (text == "[DONE]") {
			t.Fatalf("event %d of %d is %q", i, len(events), e)
		} else if !last {
			list = append(list, decoded(t, text))
		}
	}
	return list
}

var noOptions tokenizer.Options
