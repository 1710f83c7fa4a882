package builtin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
	"go.uber.org/goleak"
)

// tests runs the tests and closes the idle connections of the shared transport before the leak check.
type tests struct{ m *testing.M }

func (t tests) Run() int {
	code := t.m.Run()
	env.CloseIdle()
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

// serve starts a server for one test.
func serve(t *testing.T, name string, o builtin.Options) *builtin.Server {
	t.Helper()
	s, err := builtin.Serve(context.Background(), name, "127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// send sends a request and returns the status, the content type and the body.
func send(t *testing.T, method, url, contentType, body string) (int, string, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.ContentLength != int64(len(text)) {
		t.Errorf("%s %s: content length %d of %d bytes", method, url, resp.ContentLength, len(text))
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(text)
}

// post sends JSON and returns the body of a reply with status 200.
func post(t *testing.T, url, body string) string {
	t.Helper()
	kind := "application/json"
	if body == "" {
		kind = ""
	}
	status, got, text := send(t, "POST", url, kind, body)
	if status != 200 || got != "application/json" {
		t.Fatalf("POST %s %s: %d %s %s", url, body, status, got, text)
	}
	return text
}

// get returns the body of a reply with status 200.
func get(t *testing.T, url string) string {
	t.Helper()
	status, _, text := send(t, "GET", url, "", "")
	if status != 200 {
		t.Fatalf("GET %s: %d %s", url, status, text)
	}
	return text
}

// equal fails the test if a reply differs from want.
func equal(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// observation returns the value of the key "observation" in a reply.
func observation(t *testing.T, reply string) string {
	t.Helper()
	var r struct{ Observation *string }
	if err := json.NewDecoder(bytes.NewReader([]byte(reply))).Decode(&r); err != nil || r.Observation == nil {
		t.Fatalf("no observation in %s: %v", reply, err)
	}
	return *r.Observation
}

// play sends actions through the client of package env and returns the results.
func play(t *testing.T, c env.Client, index int, actions []string) []env.StepResult {
	t.Helper()
	if _, err := c.Reset(context.Background(), index); err != nil {
		t.Fatal(err)
	}
	var results []env.StepResult
	for _, a := range actions {
		r, err := c.Step(context.Background(), "Thought:\nI continue.\n\nAction:\n"+a)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	return results
}

// client returns a client of the named environment.
func client(t *testing.T, name string, o env.Options) env.Client {
	t.Helper()
	spec, err := env.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := spec.New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
