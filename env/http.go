package env

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/transport"
	"github.com/openmanus/openmanus/env/action"
	"github.com/openmanus/openmanus/internal/backoff"
)

// These are the defaults of Options.
const (
	DefaultTimeout      = 300 * time.Second
	DefaultCloseTimeout = 5 * time.Second
	DefaultAttempts     = 5
	DefaultMaxReply     = 16 << 20
	defaultBackoff      = 100 * time.Millisecond

	maxBackoff  = 5 * time.Second // the longest pause between two attempts of one call
	dialTimeout = 10 * time.Second

	// IdleTimeout is the time that an idle connection is kept. It is shorter than the
	// 5 s after which uvicorn silently closes a connection: a step that was sent into
	// a closed connection could not be repeated.
	IdleTimeout = 4 * time.Second
)

// shared is the only transport of the process. It ignores proxies from the
// environment variables, since servers run on the same host or network.
var shared = &http.Transport{
	DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
	IdleConnTimeout:       IdleTimeout,
	MaxIdleConnsPerHost:   512,
	DisableCompression:    true,
	TLSHandshakeTimeout:   dialTimeout,
	ExpectContinueTimeout: time.Second,
}

// CloseIdle closes idle connections. Tests that count goroutines call it at
// their end.
func CloseIdle() { shared.CloseIdleConnections() }

var sharedClient = &http.Client{
	Transport: transport.Bound(shared),
	// A redirect means a wrong address, such as one with an extra slash.
	// Following it would send a step twice.
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// caller makes the HTTP calls of one environment instance.
type caller struct {
	o       Options // the options with defaults filled in
	spec    Spec
	grammar action.Grammar
	server  server
	base    string // the server's address, without trailing slash
}

// newCaller returns the caller of an instance of an environment.
func newCaller(spec Spec, o Options, s server) (*caller, error) {
	c := &caller{o: o, spec: spec, server: s}
	var err error
	if c.grammar, err = o.grammar(spec); err != nil {
		return nil, err
	}
	c.grammar.Functions = s.functions
	if c.base, err = BaseURL(o.BaseURL, spec.PathSuffix); err != nil {
		return nil, err
	}
	c.o.Client = o.HTTPClient()
	c.o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	c.o.Attempts = cmp.Or(o.Attempts, DefaultAttempts)
	c.o.MaxReply = cmp.Or(o.MaxReply, DefaultMaxReply)
	c.o.Backoff = cmp.Or(o.Backoff, defaultBackoff)
	return c, nil
}

// These operations are the values of Error.Op and Attempt.Op.
const (
	OpCreate  = "create"
	OpReset   = "reset"
	OpStep    = "step"
	OpObserve = "observe"
	OpRecall  = "recall" // a request for the result of a step whose reply was lost
	OpClose   = "close"
	OpProbe   = "probe"
	OpVersion = "version"
)

// post sends a POST request with body, which is JSON or empty.
func (c *caller) post(ctx context.Context, op, path, body string) (json.RawMessage, error) {
	return c.call(ctx, op, http.MethodPost, path, body)
}

// get sends a GET request.
func (c *caller) get(ctx context.Context, op, path string) (json.RawMessage, error) {
	return c.call(ctx, op, http.MethodGet, path, "")
}

// call sends a request, and repeats it while its failure is retryable.
func (c *caller) call(ctx context.Context, op, method, path, body string) (json.RawMessage, error) {
	for attempt := 1; ; attempt++ {
		reply, err := c.exchange(ctx, op, method, path, body)
		if err == nil {
			return reply, nil
		}
		if !err.retryable || attempt >= c.o.Attempts || !backoff.Sleep(ctx, backoff.Delay(c.o.Backoff, maxBackoff, attempt)) {
			return nil, err
		}
	}
}

// exchange sends a request once and records it. If there is a gate, exchange first waits
// for its turn; the wait does not count towards the time limit of the call.
func (c *caller) exchange(ctx context.Context, op, method, path, body string) (json.RawMessage, *Error) {
	address := c.base + path
	if c.o.Gate != nil {
		select {
		case c.o.Gate <- struct{}{}:
			defer func() { <-c.o.Gate }()
		case <-ctx.Done():
			return nil, &Error{Op: op, URL: address, Kind: KindCancelled, Err: context.Cause(ctx)}
		}
	}
	began := time.Now()
	limit := c.o.Timeouts.of(op, c.o.Timeout)
	a, err := c.roundTrip(ctx, limit, method, address, body)
	failure := c.classify(ctx, op, address, limit, a, err)
	c.observe(Attempt{op, failure, a.marks})
	if c.o.Record != nil {
		x := data.Exchange{
			Server: WithoutUser(c.base),
			Method: method,
			Path:   requestPath(address),
			Body:   body,
			Status: a.status,
			Sent:   a.status == 0 && a.sent,
			Reply:  strings.ToValidUTF8(string(a.body), "\uFFFD"),
			Millis: float64(time.Since(began).Microseconds()) / 1000,
		}
		if failure != nil {
			x.Err = failure.Error()
		}
		x.Sum = x.Checksum()
		c.o.Record(x)
	}
	if failure != nil {
		return nil, failure
	}
	return a.body, nil
}

// observe passes an attempt to Options.Observe.
func (c *caller) observe(a Attempt) {
	if c.o.Observe == nil {
		return
	}
	if a.Failure != nil {
		a.Failure.Observed = true
	}
	if lost := c.o.Observe(a); lost && a.Failure != nil {
		a.Failure.retryable = false
	}
}

// once is an empty body that net/http cannot rewind. Without a body, net/http repeats
// a GET after a broken connection, and the repetition would not be counted.
type once struct{}

func (once) Read([]byte) (int, error) { return 0, io.EOF }

var errOversize = errors.New("reply longer than the limit")

// answer is the received part of a server's reply.
type answer struct {
	status int // 0: no status line
	body   []byte
	sent   bool     // the request had a connection, so part of it may have been sent
	marks  []string // the values of injectedHeader
}

// roundTrip sends one request within limit.
func (c *caller) roundTrip(ctx context.Context, limit time.Duration, method, address, body string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var got atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
	})
	var r io.Reader
	switch {
	case body != "":
		r = strings.NewReader(body)
	case method == http.MethodGet:
		r = once{}
	}
	req, err := http.NewRequestWithContext(ctx, method, address, r)
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "*/*")
	req.Header.Set("User-Agent", "openmanus")
	resp, err := c.o.Client.Do(req)
	if err != nil {
		return answer{sent: got.Load()}, err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, c.o.MaxReply+1))
	if err == nil && int64(len(reply)) > c.o.MaxReply {
		err = errOversize
	}
	return answer{status: resp.StatusCode, body: reply, sent: true, marks: resp.Header.Values(injectedHeader)}, err
}

// classify returns the Error of an answer, or nil for a good reply. err is the error
// of roundTrip.
func (c *caller) classify(ctx context.Context, op, address string, limit time.Duration, a answer, err error) *Error {
	status := a.status
	e := &Error{Op: op, URL: address, Status: status, Sent: a.sent, Err: err}
	switch {
	case err != nil:
		var ne net.Error
		switch {
		case ctx.Err() != nil:
			e.Kind, e.Err = KindCancelled, context.Cause(ctx)
		case errors.Is(err, errOversize):
			e.Kind, e.Err = KindOversize, fmt.Errorf("more than %d bytes", c.o.MaxReply)
		case errors.Is(err, context.DeadlineExceeded), errors.As(err, &ne) && ne.Timeout() && a.sent:
			e.Kind, e.Err = KindTimeout, fmt.Errorf("no complete reply within %v", limit)
		default:
			e.Kind, e.Err = KindConnection, cause(err)
		}
	case status == http.StatusOK:
		if e.Words, e.Kind = badReply(a.body); e.Kind == "" {
			return nil
		}
	case status >= 500:
		e.Kind, e.Words = KindServer, string(a.body)
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status >= 300 && status < 400:
		e.Kind, e.Words = KindRouting, detail(a.body)
	case status >= 400:
		e.Kind, e.Words = KindValidation, detail(a.body)
	default:
		e.Kind, e.Words = KindMalformed, string(a.body)
	}
	e.Words = transport.Excerpt(e.Words)
	e.retryable = (e.Kind == KindConnection || e.Kind == KindServer) && !errors.Is(err, ErrRestarted)
	if op == OpStep {
		e.retryable = e.retryable && e.Kind == KindConnection && !a.sent || status == http.StatusServiceUnavailable && c.server.stepRetry503
	}
	return e
}

// badReply checks a reply with status 200. k is "" if it is valid JSON without an
// "error" key.
func badReply(reply []byte) (words string, k Kind) {
	if !utf8.Valid(reply) || !json.Valid(reply) {
		return string(reply), KindMalformed
	}
	var object map[string]json.RawMessage
	_ = json.Unmarshal(reply, &object) // a reply that is not an object leaves the map empty
	raw, ok := object["error"]
	if !ok {
		return "", ""
	}
	return textOf(raw), KindEnvironment
}

// detail returns the error message of a FastAPI server, {"detail": ...}.
func detail(reply []byte) string {
	var object struct{ Detail json.RawMessage }
	if json.Unmarshal(reply, &object) != nil || object.Detail == nil {
		return string(reply)
	}
	return textOf(object.Detail)
}

// textOf returns the text of a JSON string, and any other value as JSON.
func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// cause removes the method and address that net/http adds to an error. Error contains
// them already.
func cause(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// requestPath returns the path and query of an address.
func requestPath(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return "/"
}
