// Package openaitest is a chat-completions endpoint for tests. It returns the
// replies and failures that a test defines.
//
// Concurrency: the answer function of Serve is called by one goroutine at a time.
package openaitest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Request is a received request.
type Request struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	Raw map[string]any `json:"-"` // all keys of the body
	Key string         `json:"-"` // the Authorization header
}

// Last returns the content of the last message.
func (r Request) Last() string {
	if len(r.Messages) == 0 {
		return ""
	}
	return r.Messages[len(r.Messages)-1].Content
}

// Answer is the response to a request. The zero value is an empty reply.
type Answer struct {
	Text   string
	Finish string // finish_reason; "" means "stop"
	Status int    // 0 means 200
	Body   string // sent instead of a completion
	Header map[string]string
	Hang   bool // no response until the client cancels
	Cut    bool // end the response in the middle of the JSON
	// Tokens is the number of tokens of the conversation in the reported usage. One
	// of these tokens is reported for the reply. 0 omits the usage.
	Tokens int
}

// Server is a running endpoint.
type Server struct {
	URL string // ends in /v1

	mu       sync.Mutex // guards the fields below and serializes answers
	requests []Request
}

// Serve starts an endpoint that stops at the end of the test. Each chat request
// calls answer with the request and its number, from 0. The list of models does
// not call answer.
func Serve(t testing.TB, answer func(n int, r Request) Answer) *Server {
	t.Helper()
	s := &Server{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"list","data":[]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		q := Request{Key: r.Header.Get("Authorization")}
		if err != nil || json.Unmarshal(body, &q) != nil || json.Unmarshal(body, &q.Raw) != nil {
			http.Error(w, "not a request", http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		n := len(s.requests)
		s.requests = append(s.requests, q)
		a := answer(n, q)
		s.mu.Unlock()
		a.write(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.URL = server.URL + "/v1"
	return s
}

// Requests returns the chat requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

func (a Answer) write(w http.ResponseWriter, r *http.Request) {
	if a.Hang {
		<-r.Context().Done()
		return
	}
	for k, v := range a.Header {
		w.Header().Set(k, v)
	}
	status := cmp.Or(a.Status, http.StatusOK)
	body := cmp.Or(a.Body, a.completion())
	if a.Cut {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		body = body[:len(body)/2]
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func (a Answer) completion() string {
	finish := cmp.Or(a.Finish, "stop")
	c := map[string]any{
		"object": "chat.completion", "model": "stand-in",
		"choices": []any{map[string]any{"index": 0, "finish_reason": finish, "message": map[string]any{"role": "assistant", "content": a.Text}}},
	}
	if a.Tokens > 0 {
		c["usage"] = map[string]any{"prompt_tokens": a.Tokens - 1, "completion_tokens": 1, "total_tokens": a.Tokens}
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
