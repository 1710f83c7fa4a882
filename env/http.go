package env

import (
	"bytes"
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
	"github.com/openmanus/openmanus/internal/backoff"
)

// The limits of a call where Options leaves them open.
const (
	DefaultTimeout      = 300 * time.Second
	DefaultCloseTimeout = 5 * time.Second
	DefaultAttempts     = 5
	DefaultMaxReply     = 16 << 20
	defaultBackoff      = 100 * time.Millisecond
	maxBackoff          = 5 * time.Second // the longest pause between two attempts of one call
	dialTimeout         = 10 * time.Second
	// IdleTimeout is how long a connection without requests is kept. It stays below the 5 s after which uvicorn closes an idle
	// connection without a word: a step sent into a closed connection must
	// not be repeated, so the connection has to be gone before.
	IdleTimeout = 4 * time.Second
)

// shared is the process's one transport. It goes to servers directly, never
// through a proxy from the environment: they stand on loopback or beside us.
var shared = &http.Transport{
	DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
	IdleConnTimeout:       IdleTimeout,
	MaxIdleConnsPerHost:   512,
	DisableCompression:    true,
	TLSHandshakeTimeout:   dialTimeout,
	ExpectContinueTimeout: time.Second,
}

// CloseIdle closes the connections no request is using. Tests that count
// goroutines call it at their end.
func CloseIdle() { shared.CloseIdleConnections() }

var sharedClient = &http.Client{
	Transport: transport.Bound(shared),
	// A redirect is an answer we do not want (a slash too many in the
	// address); following it would send a step twice.
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// caller makes the HTTP calls of one environment instance.
type caller struct {
	client   *http.Client
	base     string // without trailing slash
	timeout  time.Duration
	timeouts Timeouts
	attempts int
	maxReply int64
	backoff  time.Duration
	record   Recorder
	observe  func(Attempt) (lost bool)
	gate     chan struct{}
	server   server
}

// server is what the HTTP layer must know about a kind of server.
type server struct {
	suffix string // of every path, such as "/maze"
	// stepRetry503 allows a step to be repeated after status 503, as upstream's
	// clients of webshop and sqlgym do: those servers answer so before acting.
	stepRetry503 bool
	keys         stepKeys // of its /step reply, usualKeys if empty
}

func newCaller(o Options, s server) (*caller, error) {
	base, err := BaseURL(o.BaseURL, s.suffix)
	if err != nil {
		return nil, err
	}
	c := &caller{
		client: o.HTTPClient(), base: base, timeout: DefaultTimeout, attempts: DefaultAttempts,
		maxReply: DefaultMaxReply, backoff: defaultBackoff, record: o.Record, server: s,
		timeouts: o.Timeouts, observe: o.Observe, gate: o.Gate,
	}
	if o.Timeout > 0 {
		c.timeout = o.Timeout
	}
	if o.Attempts > 0 {
		c.attempts = o.Attempts
	}
	if o.MaxReply > 0 {
		c.maxReply = o.MaxReply
	}
	if o.Backoff > 0 {
		c.backoff = o.Backoff
	}
	return c, nil
}

// The operations, as errors name them. The retry rule looks at OpStep.
const (
	OpCreate  = "create"
	OpReset   = "reset"
	OpStep    = "step"
	OpObserve = "observe"
	OpRecall  = "recall" // what a lost step came to
	OpClose   = "close"
	OpProbe   = "probe"
	OpVersion = "version"
)

// post calls a POST endpoint with body as JSON (no body at all if nil).
func (c *caller) post(ctx context.Context, op, path string, body any) (json.RawMessage, error) {
	var text []byte
	if body != nil {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(body); err != nil {
			return nil, fmt.Errorf("environment %s: encode request: %w", op, err)
		}
		text = bytes.TrimRight(buf.Bytes(), "\n")
	}
	return c.call(ctx, op, http.MethodPost, path, text)
}

// get calls a GET endpoint.
func (c *caller) get(ctx context.Context, op, path string) (json.RawMessage, error) {
	return c.call(ctx, op, http.MethodGet, path, nil)
}

// call sends one request, and again where its Error says it may be.
func (c *caller) call(ctx context.Context, op, method, path string, body []byte) (json.RawMessage, error) {
	for attempt := 1; ; attempt++ {
		reply, err := c.exchange(ctx, op, method, path, body)
		if err == nil {
			return reply, nil
		}
		if !err.retryable || attempt >= c.attempts {
			return nil, err
		}
		if !backoff.Sleep(ctx, backoff.Delay(c.backoff, maxBackoff, attempt)) {
			return nil, err
		}
	}
}

// exchange sends one request once and records what came of it. Where a server
// takes only so many at once, it waits for its turn first: that is no part of
// the call's time.
func (c *caller) exchange(ctx context.Context, op, method, path string, body []byte) (json.RawMessage, *Error) {
	address := c.base + path
	if c.gate != nil {
		select {
		case c.gate <- struct{}{}:
			defer func() { <-c.gate }()
		case <-ctx.Done():
			return nil, &Error{Op: op, URL: address, Kind: KindCancelled, Err: context.Cause(ctx)}
		}
	}
	began := time.Now()
	limit := c.timeouts.of(op, c.timeout)
	a, err := c.roundTrip(ctx, limit, method, address, body)
	status, reply := a.status, a.body
	failure := c.classify(ctx, op, address, limit, a, err)
	c.tell(Attempt{op, failure, a.marks})
	if c.record != nil {
		x := data.Exchange{
			Server: WithoutUser(c.base),
			Method: method,
			Path:   requestPath(address),
			Body:   strings.ToValidUTF8(string(body), "\uFFFD"),
			Status: status,
			Sent:   status == 0 && a.sent,
			Reply:  strings.ToValidUTF8(string(reply), "\uFFFD"),
			Millis: float64(time.Since(began).Microseconds()) / 1000,
		}
		if failure != nil {
			x.Err = failure.Error()
		}
		x.Sum = x.Checksum()
		c.record(x)
	}
	if failure != nil {
		return nil, failure
	}
	return reply, nil
}

// tell passes an attempt to Options.Observe.
func (c *caller) tell(a Attempt) {
	if c.observe == nil {
		return
	}
	if a.Failure != nil {
		a.Failure.Observed = true
	}
	if lost := c.observe(a); lost && a.Failure != nil {
		a.Failure.retryable = false
	}
}

// once is an empty body that net/http cannot rewind. With no body at all it
// sends a GET again by itself after a connection broke: an attempt that nobody
// would count.
type once struct{}

func (once) Read([]byte) (int, error) { return 0, io.EOF }

var errOversize = errors.New("reply longer than the limit")

// answer is what came back from a server, as far as it came.
type answer struct {
	status int // 0: no status line
	body   []byte
	sent   bool     // a connection was handed to the request: some of it may have left
	marks  []string // what injectedHeader names
}

// roundTrip does the exchange itself.
func (c *caller) roundTrip(ctx context.Context, limit time.Duration, method, address string, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var got atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
	})
	var r io.Reader
	switch {
	case body != nil:
		r = bytes.NewReader(body)
	case method == http.MethodGet:
		r = once{}
	}
	req, err := http.NewRequestWithContext(ctx, method, address, r)
	if err != nil {
		return answer{}, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "*/*")
	req.Header.Set("User-Agent", "openmanus")
	resp, err := c.client.Do(req)
	if err != nil {
		return answer{sent: got.Load()}, err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, c.maxReply+1))
	if err == nil && int64(len(reply)) > c.maxReply {
		err = errOversize
	}
	return answer{status: resp.StatusCode, body: reply, sent: true, marks: resp.Header.Values(injectedHeader)}, err
}

// classify turns what came back into an Error, or nil if it is a reply.
func (c *caller) classify(ctx context.Context, op, address string, limit time.Duration, a answer, err error) *Error {
	status, reply, sent := a.status, a.body, a.sent
	e := &Error{Op: op, URL: address, Status: status, Sent: sent, Err: err}
	switch {
	case err != nil:
		var ne net.Error
		switch {
		case ctx.Err() != nil:
			e.Kind, e.Err = KindCancelled, context.Cause(ctx)
		case errors.Is(err, errOversize):
			e.Kind, e.Err = KindOversize, fmt.Errorf("more than %d bytes", c.maxReply)
		case errors.Is(err, context.DeadlineExceeded), errors.As(err, &ne) && ne.Timeout() && sent:
			e.Kind, e.Err = KindTimeout, fmt.Errorf("no complete reply within %v", limit)
		default:
			e.Kind, e.Err = KindConnection, cause(err)
		}
	case status == http.StatusOK:
		if e.Words, e.Kind = badReply(reply); e.Kind == "" {
			return nil
		}
	case status >= 500:
		e.Kind, e.Words = KindServer, shorten(string(reply))
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status >= 300 && status < 400:
		e.Kind, e.Words = KindRouting, shorten(detail(reply))
	case status >= 400:
		e.Kind, e.Words = KindValidation, shorten(detail(reply))
	default:
		e.Kind, e.Words = KindMalformed, shorten(string(reply))
	}
	e.retryable = (e.Kind == KindConnection || e.Kind == KindServer) && !errors.Is(err, ErrRestarted)
	if op == OpStep {
		e.retryable = e.retryable && e.Kind == KindConnection && !sent || status == http.StatusServiceUnavailable && c.server.stepRetry503
	}
	return e
}

// badReply looks for what a reply with status 200 must not be. An empty kind
// means it is good JSON without an "error" key.
func badReply(reply []byte) (words string, k Kind) {
	if !utf8.Valid(reply) || !json.Valid(reply) {
		return shorten(string(reply)), KindMalformed
	}
	t := bytes.TrimLeft(reply, " \t\r\n")
	if len(t) == 0 || t[0] != '{' {
		return "", ""
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(t, &object); err != nil {
		return shorten(string(reply)), KindMalformed
	}
	raw, ok := object["error"]
	if !ok {
		return "", ""
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	return shorten(text), KindEnvironment
}

// detail takes the server's words out of {"detail": ...}.
func detail(reply []byte) string {
	var object struct{ Detail json.RawMessage }
	if json.Unmarshal(reply, &object) != nil || object.Detail == nil {
		return string(reply)
	}
	var text string
	if json.Unmarshal(object.Detail, &text) == nil {
		return text
	}
	return string(object.Detail)
}

// cause drops the address and verb net/http puts in front: Error has them.
func cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// requestPath gives the path and query of an address.
func requestPath(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return "/"
}
