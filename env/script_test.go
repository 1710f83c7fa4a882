package env

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// script is a fake server that answers each "METHOD /path" with the replies listed for it, in order, repeating the
// last one, and records the requests. Two concurrent requests fail the test.
type script struct {
	t       *testing.T
	URL     string
	replies map[string][]reply

	mu       sync.Mutex
	asked    []string // "METHOD /path?query BODY"
	inFlight int
	overlap  bool // the test sends concurrent requests
	conns    int  // opened so far
}

// reply is one answer. The special fields break the connection instead.
type reply struct {
	status int // 200 if 0
	body   string
	hold   time.Duration // wait before answering
	cut    bool          // announce the body, send half, reset
	drop   bool          // reset without an answer
	head   map[string]string
}

func ok(body string) []reply { return []reply{{body: body}} }

func newScript(t *testing.T, replies map[string][]reply) *script {
	t.Helper()
	s := &script{t: t, replies: replies}
	srv := httptest.NewUnstartedServer(s)
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			s.conns++
			s.mu.Unlock()
		}
	}
	srv.Start()
	t.Cleanup(func() { CloseIdle(); srv.Close() })
	s.URL = srv.URL
	return s
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	key := r.Method + " " + r.URL.Path
	s.mu.Lock()
	s.inFlight++
	if s.inFlight > 1 && !s.overlap {
		s.t.Errorf("%s: a second request while one is in flight", key)
	}
	s.asked = append(s.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	list := s.replies[key]
	var a reply
	if len(list) == 0 {
		a = reply{status: 404, body: `{"detail":"Not Found"}`}
	} else if a = list[0]; len(list) > 1 {
		s.replies[key] = list[1:]
	}
	s.mu.Unlock()
	left := sync.OnceFunc(func() { s.mu.Lock(); s.inFlight--; s.mu.Unlock() })
	defer left()
	if want := "application/json"; len(body) > 0 && r.Header.Get("Content-Type") != want {
		s.t.Errorf("%s: content type %q", key, r.Header.Get("Content-Type"))
	}
	if a.hold > 0 {
		select {
		case <-time.After(a.hold):
		case <-r.Context().Done():
			return
		}
	}
	left() // before the client can know
	if a.drop || a.cut {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			s.t.Error(err)
			return
		}
		if a.cut {
			fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(a.body), a.body[:len(a.body)/2])
			buf.Flush()
		} else {
			conn.(*net.TCPConn).SetLinger(0)
		}
		conn.Close()
		return
	}
	for k, v := range a.head {
		w.Header().Set(k, v)
	}
	if a.status == 0 {
		a.status = 200
	}
	w.WriteHeader(a.status)
	io.WriteString(w, a.body)
}

// requests returns the requests so far.
func (s *script) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

// count returns the number of requests that begin with prefix.
func (s *script) count(prefix string) int {
	n := 0
	for _, r := range s.requests() {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// quick returns options with short timeouts.
func quick(url string) Options {
	return Options{BaseURL: url, Backoff: time.Microsecond, Timeout: 20 * time.Second}
}
