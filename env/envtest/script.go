// Package envtest is a stand-in for an environment server in tests. It sends the
// replies and failures that a test lists.
package envtest

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Script is a server that answers each "METHOD /path" with the replies listed
// for it, in order, repeating the last one. A request without replies has status
// 404. Two concurrent requests fail the test unless Overlap is set.
type Script struct {
	URL     string
	Replies map[string][]Reply
	Overlap bool

	t        *testing.T
	mu       sync.Mutex
	requests []string // guarded by mu
	inFlight int      // guarded by mu
}

// Reply is one reply. Cut and Drop break the connection.
type Reply struct {
	Status int // 200 if 0
	Body   string
	Hold   time.Duration // pause before the reply
	Cut    bool          // announce the whole body, but send only half of it
	Drop   bool          // close the connection without a reply
	Head   map[string]string
}

// OK returns one reply with status 200.
func OK(body string) []Reply { return []Reply{{Body: body}} }

// New starts a server that ends with the test.
func New(t *testing.T, replies map[string][]Reply) *Script {
	t.Helper()
	s := &Script{t: t, Replies: replies}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

// ServeHTTP records a request and answers it.
func (s *Script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // tests send complete requests
	if kind := r.Header.Get("Content-Type"); len(body) > 0 && kind != "application/json" {
		s.t.Errorf("%s %s: content type %q", r.Method, r.URL.Path, kind)
	}
	a := s.begin(r, string(body))
	select {
	case <-time.After(a.Hold):
	case <-r.Context().Done():
	}
	// The request counts as ended before the client receives the reply.
	s.mu.Lock()
	s.inFlight--
	s.mu.Unlock()
	if a.Drop {
		panic(http.ErrAbortHandler)
	}
	for key, value := range a.Head {
		w.Header().Set(key, value)
	}
	if a.Cut {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.Body)))
		a.Body = a.Body[:len(a.Body)/2]
	}
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	_, _ = io.WriteString(w, a.Body) // the client may have disconnected
}

func (s *Script) begin(r *http.Request, body string) Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.Method + " " + r.URL.Path
	if s.inFlight++; s.inFlight > 1 && !s.Overlap {
		s.t.Errorf("%s: got a second request while another one is in progress", key)
	}
	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+body))
	list := s.Replies[key]
	if len(list) == 0 {
		return Reply{Status: http.StatusNotFound, Body: `{"detail":"Not Found"}`}
	}
	if len(list) > 1 {
		s.Replies[key] = list[1:]
	}
	return list[0]
}

// Requests returns the requests so far, as "METHOD /path?query BODY".
func (s *Script) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}
