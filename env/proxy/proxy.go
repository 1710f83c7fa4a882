package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/openmanus/openmanus/data/transport"
	"github.com/openmanus/openmanus/env/fault"
	"github.com/openmanus/openmanus/env/listen"
)

// CountsPath is the path of the counts of the proxy. No environment uses it.
const CountsPath = "/__faults"

// idleTimeout is the time that an idle connection to the server is kept. It is less than
// 5 s: uvicorn closes a connection that was idle for 5 s, and a request would fail.
const idleTimeout = 4 * time.Second

const dialTimeout = 10 * time.Second

// Options configures a Server. Upstream is required.
type Options struct {
	Upstream string           // address of the server, such as http://127.0.0.1:36001
	Plan     *fault.Plan      // nil: no faults
	Journal  io.Writer        // receives a line of JSON for every fault; nil: no journal
	Now      func() time.Time // returns the time for the journal; nil: time.Now
	Log      *slog.Logger     // nil: no log
}

// Server is a running proxy.
type Server struct {
	*listen.Server
	transport *http.Transport
	now       func() time.Time
	log       *slog.Logger

	mu         sync.Mutex
	counts     Counts    // guarded by mu
	journal    io.Writer // nil: no journal; guarded by mu
	journalErr error     // the first failure to write to journal; guarded by mu
}

// numberKey is the key of a request's number in its context.
type numberKey struct{}

// Serve starts a proxy on addr, such as "127.0.0.1:36101", or "127.0.0.1:0" for a free
// port. It runs until Close is called or ctx ends; Close must be called in both cases.
func Serve(ctx context.Context, addr string, o Options) (*Server, error) {
	up, err := url.Parse(strings.TrimSpace(o.Upstream))
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", o.Upstream, err)
	}
	if up.Scheme != "http" && up.Scheme != "https" || up.Hostname() == "" || up.RawQuery != "" || up.Fragment != "" {
		return nil, fmt.Errorf("upstream %q: want http://HOST:PORT", o.Upstream)
	}
	s := &Server{
		transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSHandshakeTimeout: dialTimeout,
			IdleConnTimeout:     idleTimeout,
			MaxIdleConnsPerHost: 512,
			DisableCompression:  true,
		},
		now:     o.Now,
		log:     o.Log,
		counts:  Counts{Faults: map[string]int{}},
		journal: o.Journal,
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	faulty := fault.New(s.forwarder(up), o.Plan, s.injected)
	s.Server, err = listen.Serve(ctx, "a proxy", addr, s.handler(faulty), o.Log)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// forwarder returns a handler that forwards requests to the server at the address up.
func (s *Server) forwarder(up *url.URL) http.Handler {
	prefix := strings.TrimRight(up.EscapedPath(), "/")
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			// The path is forwarded unmodified, including double slashes.
			raw := prefix + r.In.URL.EscapedPath()
			if path, err := url.PathUnescape(raw); err == nil {
				r.Out.URL.Path, r.Out.URL.RawPath = path, raw
			}
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = up.Scheme, up.Host, up.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery
		},
		Transport:    transport.Bound(s.transport),
		ErrorHandler: s.upstreamFailed,
		ErrorLog:     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// handler returns a handler that answers a request for CountsPath with the counts.
// It numbers all other requests and passes them to next.
func (s *Server) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == CountsPath {
			s.serveCounts(w)
			return
		}
		s.mu.Lock()
		s.counts.Requests++
		n := s.counts.Requests
		s.mu.Unlock()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), numberKey{}, n)))
	})
}

// upstreamFailed replies to a request if the server cannot be reached or breaks the
// connection. These failures are counted separately from injected faults.
func (s *Server) upstreamFailed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil || errors.Is(err, context.Canceled) {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	s.mu.Lock()
	s.counts.UpstreamErrors++
	s.write(r, entry{Kind: "upstream", Error: err.Error()})
	s.mu.Unlock()
	s.log.Warn("the server behind the proxy failed", "path", r.URL.Path, "error", err)
	http.Error(w, "the server behind the proxy failed: "+err.Error(), http.StatusBadGateway)
}

// Close stops the proxy as listen.Server.Close does, then closes its connections to
// the server. It also returns the error of the journal, if any.
func (s *Server) Close(ctx context.Context) error {
	err := s.Server.Close(ctx)
	s.transport.CloseIdleConnections()
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(err, s.journalErr)
}
