package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/backoff"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// longTimeout is a timeout longer than any request of the tests.
const longTimeout = time.Minute

// client returns a client that records its pauses instead of waiting.
func client(t *testing.T, o Options) (*Client, *[]time.Duration) {
	t.Helper()
	if o.Model == "" {
		o.Model = "m"
	}
	if o.Timeout == 0 {
		o.Timeout = longTimeout
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var mu sync.Mutex
	var waits []time.Duration
	c.sleep = func(ctx context.Context, d time.Duration) bool {
		mu.Lock()
		defer mu.Unlock()
		waits = append(waits, d)
		return ctx.Err() == nil
	}
	return c, &waits
}

var hello = Request{Messages: []data.Message{{Role: "user", Content: "hello"}}, MaxTokens: 9, Temperature: 0.5}

func answers(list ...openaitest.Answer) func(int, openaitest.Request) openaitest.Answer {
	return func(n int, _ openaitest.Request) openaitest.Answer { return list[min(n, len(list)-1)] }
}

func TestChat(t *testing.T) {
	s := openaitest.Serve(t, answers(openaitest.Answer{Text: "hi", Tokens: 12}))
	c, _ := client(t, Options{BaseURL: s.URL, Model: "small", Key: "secret"})
	seed := int64(7)
	loss := true
	reply, err := c.Chat(t.Context(), Request{
		Messages:  []data.Message{{Role: "system", Content: "s"}, {Role: "user", Content: "u", Loss: &loss}},
		MaxTokens: 9, Temperature: 0.5, TopP: 0.9, TopK: 4, Seed: &seed,
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Reply{Text: "hi", Finish: "stop", Usage: Usage{PromptTokens: 11, CompletionTokens: 1}}, reply); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got := s.Requests()[0]
	if got.Key != "Bearer secret" {
		t.Errorf("Authorization %q", got.Key)
	}
	want := map[string]any{
		"model": "small", "max_tokens": 9.0, "temperature": 0.5, "top_p": 0.9, "top_k": 4.0, "seed": 7.0,
		"messages": []any{map[string]any{"role": "system", "content": "s"}, map[string]any{"role": "user", "content": "u"}},
	}
	if diff := cmp.Diff(want, got.Raw); diff != "" {
		t.Errorf("the request: -want +got:\n%s", diff)
	}
	c, _ = client(t, Options{BaseURL: s.URL + "/chat/completions/"})
	if _, err = c.Chat(t.Context(), Request{Messages: hello.Messages, TopP: 1}); err != nil {
		t.Fatal(err)
	}
	got = s.Requests()[1]
	want = map[string]any{"model": "m", "temperature": 0.0, "messages": []any{map[string]any{"role": "user", "content": "hello"}}}
	if diff := cmp.Diff(want, got.Raw); diff != "" || got.Key != "" {
		t.Errorf("request with the default options: key %q, -want +got:\n%s", got.Key, diff)
	}
}

func TestFailures(t *testing.T) {
	ok := openaitest.Answer{Text: "fine"}
	status := func(n int, body string) openaitest.Answer { return openaitest.Answer{Status: n, Body: body} }
	tests := []struct {
		name   string
		answer openaitest.Answer
		kind   Kind
		retry  bool
		words  string // contained in the error
	}{
		{"429", status(429, `{"error":{"message":"slow down"}}`), KindRate, true, "slow down"},
		{"no credit", status(429, `{"error":{"message":"pay","code":"insufficient_quota"}}`), KindQuota, false, "pay"},
		{"500", status(500, `{"error":{"message":"boom","code":13}}`), KindServer, true, "boom"},
		{"502 with a page", status(502, "<html>bad gateway</html>"), KindServer, true, "bad gateway"},
		{"408", status(408, "x"), KindTimeout, true, "status 408"},
		{"401", status(401, `{"error":{"message":"no such key: secret"}}`), KindAuth, false, "[key]"},
		{"404", status(404, `{"detail":"Not Found"}`), KindMissing, false, "Not Found"},
		{"redirect", openaitest.Answer{Status: 307, Body: "x", Header: map[string]string{"Location": "http://127.0.0.1:1/"}}, KindMissing, false, "307"},
		{"400", status(400, `{"message":"temperature","code":400}`), KindRefused, false, "temperature"},
		{"too long", status(400, `{"error":{"message":"This model's maximum context length is 10 tokens."}}`), KindContext, false, "10 tokens"},
		{"too long by its code", status(400, `{"error":{"message":"x","code":"context_length_exceeded"}}`), KindContext, false, "x"},
		{"cut off", openaitest.Answer{Text: "fine", Cut: true}, KindConnection, true, ""},
		{"half of the JSON", openaitest.Answer{Body: `{"choices":[{"mess`}, KindMalformed, true, `\"mess`},
		{"another shape", openaitest.Answer{Body: `{"choices":3}`}, KindMalformed, true, ""},
		{"a page", openaitest.Answer{Body: `<html>`}, KindMalformed, true, "html"},
		{"no choices", openaitest.Answer{Body: `{"choices":[]}`}, KindEmpty, true, "no choices"},
		{"no message", openaitest.Answer{Body: `{"choices":[{}]}`}, KindEmpty, true, "no choices"},
		{"no content", openaitest.Answer{Body: `{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}`}, KindEmpty, true, "no content"},
		{"tools", openaitest.Answer{Body: `{"choices":[{"message":{"tool_calls":[{}]},"finish_reason":"tool_calls"}]}`}, KindRefused, false, "tool parser"},
		{"filtered", openaitest.Answer{Finish: "content_filter"}, KindFiltered, false, "content_filter"},
		{"an error in a 200", openaitest.Answer{Body: `{"error":{"message":"upstream died"}}`}, KindServer, true, "upstream died"},
		{"204", status(204, ""), KindMalformed, true, "204"},
		{"oversize", openaitest.Answer{Text: strings.Repeat("x", 4096)}, KindOversize, false, "2048 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// If all attempts fail, Chat returns the last error.
			s := openaitest.Serve(t, answers(tt.answer))
			c, waits := client(t, Options{BaseURL: s.URL, Key: "secret", Attempts: 3})
			c.maxReply = 2048
			_, err := c.Chat(t.Context(), hello)
			if !errors.Is(err, tt.kind) || !strings.Contains(fmt.Sprint(err), tt.words) || strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("got error %v, want %s that contains %q", err, tt.kind, tt.words)
			}
			tries := 1
			if tt.retry {
				tries = 3
			}
			if n := len(s.Requests()); n != tries || len(*waits) != tries-1 {
				t.Errorf("%d requests and %d pauses, want %d and %d", n, len(*waits), tries, tries-1)
			}
			if u := c.Usage(); u.Requests != int64(tries) || u.Retries != int64(tries-1) {
				t.Errorf("usage %+v, want %d requests and %d retries", u, tries, tries-1)
			}
			// After one failure, a second attempt succeeds.
			s = openaitest.Serve(t, answers(tt.answer, ok))
			c, _ = client(t, Options{BaseURL: s.URL, Attempts: 3})
			c.maxReply = 2048
			if reply, err := c.Chat(t.Context(), hello); tt.retry != (err == nil) || tt.retry && reply.Text != "fine" {
				t.Errorf("Chat after one failure: %+v, %v", reply, err)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, tt := range []struct {
		name   string
		header map[string]string
		want   time.Duration // 0: default pause
		giveUp bool
	}{
		{"seconds", map[string]string{"Retry-After": "7"}, 7 * time.Second, false},
		{"a fraction of a second", map[string]string{"Retry-After": "0.25"}, 250 * time.Millisecond, false},
		{"milliseconds", map[string]string{"Retry-After-Ms": "1500", "Retry-After": "9"}, 1500 * time.Millisecond, false},
		{"date by the endpoint's clock", map[string]string{"Date": at(0), "Retry-After": at(30 * time.Second)}, 30 * time.Second, false},
		{"a past date", map[string]string{"Date": at(0), "Retry-After": at(-time.Hour)}, 0, false},
		{"nonsense", map[string]string{"Retry-After": "soon"}, 0, false},
		{"negative", map[string]string{"Retry-After": "-3"}, 0, false},
		{"too long", map[string]string{"Retry-After": "61"}, 0, true},
		{"huge", map[string]string{"Retry-After": "1e300"}, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openaitest.Serve(t, answers(openaitest.Answer{Status: 429, Body: "{}", Header: tt.header}, openaitest.Answer{Text: "ok"}))
			c, waits := client(t, Options{BaseURL: s.URL})
			_, err := c.Chat(t.Context(), hello)
			if tt.giveUp {
				if !errors.Is(err, KindRate) || !strings.Contains(err.Error(), "longer than the limit") || len(*waits) > 0 {
					t.Errorf("error %v after pauses %v", err, *waits)
				}
				return
			}
			if err != nil || len(*waits) != 1 {
				t.Fatalf("error %v after pauses %v", err, *waits)
			}
			if w := (*waits)[0]; tt.want > 0 && w != tt.want || tt.want == 0 && (w < firstPause/2 || w > firstPause) {
				t.Errorf("waited %v, want %v (0: the default pause)", w, tt.want)
			}
		})
	}
}

func TestTimeoutAndCancellation(t *testing.T) {
	s := openaitest.Serve(t, answers(openaitest.Answer{Hang: true}))
	c, _ := client(t, Options{BaseURL: s.URL, Timeout: 20 * time.Millisecond, Attempts: 2})
	if _, err := c.Chat(t.Context(), hello); !errors.Is(err, KindTimeout) || len(s.Requests()) > 2 {
		t.Errorf("Chat with a hanging endpoint: got error %v, want %v", err, KindTimeout)
	}
	// The context is cancelled during a request and while waiting for a slot.
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	arrived := make(chan struct{}, 1)
	s = openaitest.Serve(t, func(int, openaitest.Request) openaitest.Answer {
		arrived <- struct{}{}
		return openaitest.Answer{Hang: true}
	})
	c, _ = client(t, Options{BaseURL: s.URL, Concurrency: 1})
	errs := make(chan error, 2)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _, err := c.Chat(ctx, hello); errs <- err })
	}
	<-arrived
	cancel(why)
	wg.Wait()
	for range 2 {
		if err := <-errs; !errors.Is(err, KindCancelled) || !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
	}
	// The context is cancelled during a pause.
	ctx, stop := context.WithCancel(t.Context())
	s = openaitest.Serve(t, func(int, openaitest.Request) openaitest.Answer {
		return openaitest.Answer{Status: 503, Body: "x", Header: map[string]string{"Retry-After": "50"}}
	})
	c, _ = client(t, Options{BaseURL: s.URL})
	c.sleep = func(ctx context.Context, d time.Duration) bool { stop(); return backoff.Sleep(ctx, d) }
	if _, err := c.Chat(ctx, hello); !errors.Is(err, KindCancelled) || len(s.Requests()) != 1 {
		t.Errorf("got %v after %d requests", err, len(s.Requests()))
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	var now, most atomic.Int64
	release := make(chan struct{})
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		if n == 3 {
			once.Do(func() { close(release) })
		}
		select { // until three requests are in progress
		case <-release:
		case <-time.After(longTimeout):
		}
		_, _ = w.Write([]byte(`{"choices":[{"message":{"content":"x"}}]}`))
	}))
	defer server.Close()
	c, _ := client(t, Options{BaseURL: server.URL, Concurrency: 3})
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			if _, err := c.Chat(t.Context(), hello); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most.Load() != 3 {
		t.Errorf("the maximum of concurrent requests is %d, want 3", most.Load())
	}
}

func TestMaxCompletionTokens(t *testing.T) {
	s := openaitest.Serve(t, func(_ int, r openaitest.Request) openaitest.Answer {
		if _, old := r.Raw["max_tokens"]; old {
			return openaitest.Answer{Status: 400, Body: `{"error":{"message":"Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}`}
		}
		return openaitest.Answer{Text: "ok"}
	})
	c, _ := client(t, Options{BaseURL: s.URL, Attempts: 1})
	for range 2 {
		if _, err := c.Chat(t.Context(), hello); err != nil {
			t.Fatal(err)
		}
	}
	got := s.Requests()
	if len(got) != 3 || got[2].Raw["max_completion_tokens"] != 9.0 {
		t.Errorf("%d requests, the last is %v; want 3, the last with max_completion_tokens", len(got), got[len(got)-1].Raw)
	}
	// An endpoint that rejects max_tokens and max_completion_tokens gets no third request.
	s = openaitest.Serve(t, answers(openaitest.Answer{Status: 400, Body: `{"error":{"message":"max_completion_tokens is too large"}}`}))
	c, _ = client(t, Options{BaseURL: s.URL})
	if _, err := c.Chat(t.Context(), hello); !errors.Is(err, KindRefused) || len(s.Requests()) != 2 {
		t.Errorf("error %v after %d requests, want the error after 2", err, len(s.Requests()))
	}
}

func TestCheck(t *testing.T) {
	s := openaitest.Serve(t, answers(openaitest.Answer{Text: "yes"}))
	c, _ := client(t, Options{BaseURL: s.URL})
	if err := c.Check(t.Context(), hello); err != nil {
		t.Error(err)
	}
	if got := s.Requests()[0].Raw["max_tokens"]; got != 16.0 {
		t.Errorf("max_tokens is %v, want 16", got)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	c, waits := client(t, Options{BaseURL: gone.URL})
	if err := c.Check(t.Context(), hello); !errors.Is(err, KindConnection) || len(*waits) > 0 {
		t.Errorf("Check with a closed endpoint: error %v after %d pauses", err, len(*waits))
	}
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	c, waits = client(t, Options{BaseURL: hangs.URL})
	c.checkTimeout = 20 * time.Millisecond
	if err := c.Check(t.Context(), hello); !errors.Is(err, KindTimeout) || len(*waits) > 0 {
		t.Errorf("Check with a hanging endpoint: error %v after %d pauses", err, len(*waits))
	}
	s = openaitest.Serve(t, answers(openaitest.Answer{Status: 404, Body: `{"error":{"message":"the model m does not exist"}}`}))
	c, _ = client(t, Options{BaseURL: s.URL})
	var fault *Error
	if err := c.Check(t.Context(), hello); !errors.As(err, &fault) || !fault.Hopeless() || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("Check with a wrong model name: error %v", err)
	}
}

func TestOptions(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"http://a:1/v1/", "http://a:1/v1"},
		{" https://api.openai.com/v1/chat/completions", "https://api.openai.com/v1"},
		{"http://[::1]:8000", "http://[::1]:8000"},
		{"localhost:8000", ""}, {"ftp://a/v1", ""}, {"", ""}, {"http://", ""},
		{"http://user:pw@a/v1", ""}, {"https://a/v1?key=x", ""},
	} {
		got, err := BaseURL(tt.in)
		if got != tt.want || (err == nil) != (tt.want != "") || err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("BaseURL(%q) = %q, %v", tt.in, got, err)
		}
	}
	_, err := New(Options{BaseURL: "x", Key: "a\nb", Concurrency: -1})
	for _, want := range []string{"not the address", "no model", "line break", "negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
}
