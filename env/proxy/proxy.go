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
	"sync/atomic"
	"time"

	"github.com/openmanus/openmanus/data/transport"
	"github.com/openmanus/openmanus/env/fault"
)

// CountsPath is the path of the proxy's own counts. No environment uses it.
const CountsPath = "/__faults"

// idleTimeout is how long an idle connection to the server is kept: less than the 5 s
// after which uvicorn closes it, which would look like a fault of the server.
const idleTimeout = 4 * time.Second

const dialTimeout = 10 * time.Second

// Options configures a Proxy. Upstream is required.
type Options struct {
	Upstream string           // address of the server, such as http://127.0.0.1:36001
	Plan     *fault.Plan      // nil: no faults
	Journal  io.Writer        // receives a line of JSON for every fault; nil: none
	Now      func() time.Time // for the journal; nil: time.Now
	Log      *slog.Logger     // nil: silent
}

// Proxy is an http.Handler that forwards to one server.
type Proxy struct {
	handler   http.Handler
	transport *http.Transport
	journal   *journal
	arrived   atomic.Int64
	log       *slog.Logger
}

// numberKey is the key of a request's number in its context.
type numberKey struct{}

// New returns a proxy. Close closes its connections to the server.
func New(o Options) (*Proxy, error) {
	up, err := url.Parse(strings.TrimSpace(o.Upstream))
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", o.Upstream, err)
	}
	if up.Scheme != "http" && up.Scheme != "https" || up.Hostname() == "" || up.RawQuery != "" || up.Fragment != "" {
		return nil, fmt.Errorf("upstream %q: want http://HOST:PORT", o.Upstream)
	}
	p := &Proxy{
		transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSHandshakeTimeout: dialTimeout,
			IdleConnTimeout:     idleTimeout,
			MaxIdleConnsPerHost: 512,
			DisableCompression:  true,
		},
		journal: newJournal(o.Journal, o.Now),
		log:     o.Log,
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	prefix := strings.TrimRight(up.EscapedPath(), "/")
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			// The path is forwarded unmodified, including double slashes.
			raw := prefix + r.In.URL.EscapedPath()
			if path, err := url.PathUnescape(raw); err == nil {
				r.Out.URL.Path, r.Out.URL.RawPath = path, raw
			}
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = up.Scheme, up.Host, up.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery
		},
		Transport:    transport.Bound(p.transport),
		ErrorHandler: p.upstreamFailed,
		ErrorLog:     slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	p.handler = fault.New(forward, o.Plan, func(r *http.Request, f fault.Injected) { p.journal.fault(numberOf(r), r, f) })
	return p, nil
}

// ServeHTTP returns the counts, or forwards the request with faults.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == CountsPath {
		p.serveCounts(w)
		return
	}
	n := p.arrived.Add(1)
	p.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), numberKey{}, n)))
}

func numberOf(r *http.Request) int64 {
	n, _ := r.Context().Value(numberKey{}).(int64)
	return n
}

// upstreamFailed replies for a server that cannot be reached or breaks the connection.
// Such failures are counted separately from injected faults.
func (p *Proxy) upstreamFailed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil || errors.Is(err, context.Canceled) {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	p.journal.upstream(numberOf(r), r, err)
	p.log.Warn("the server behind the proxy failed", "path", r.URL.Path, "error", err)
	http.Error(w, "the server behind the proxy failed: "+err.Error(), http.StatusBadGateway)
}

// Close closes the idle connections to the server.
func (p *Proxy) Close() { p.transport.CloseIdleConnections() }
