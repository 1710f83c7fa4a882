package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	_ "golang.org/x/crypto/x509roots/fallback" // certificates for machines without them, such as small containers

	"github.com/openmanus/openmanus/data/transport"
	"github.com/openmanus/openmanus/internal/backoff"
)

// Limits of a request. Every wait has one.
const (
	dialTimeout   = 10 * time.Second
	headerTimeout = 30 * time.Second // until the headers of a response arrive
	stallTimeout  = 30 * time.Second // between two parts of a body
	attempts      = 6                // of one request without progress
	firstAttempts = 2                // before the hub has answered for the first time
	firstPause    = time.Second      // after the first failed attempt; doubles
	longestPause  = 30 * time.Second
	longestWait   = 6 * time.Minute // longest Retry-After; the hub counts requests in windows of 5 minutes
	maxRedirects  = 5
	maxInfo       = 64 << 20 // bytes of a reply other than a file
)

// Client fetches models. Close releases its connections.
type Client struct {
	Settings
	Log *slog.Logger

	// OnStart, unless nil, receives the number of bytes that a Fetch will download.
	OnStart func(total int64)
	// OnProgress, unless nil, receives the number of finished bytes and the current activity. Calls follow each
	// other, after OnStart.
	OnProgress func(done int64, activity string)

	http  *http.Client
	slots chan struct{} // one for each open request for a part of a file
	sleep func(context.Context, time.Duration) bool
	stall time.Duration

	answered atomic.Bool // a server has sent a response
}

// parallel is the number of concurrent requests for parts of files.
const parallel = 8

// New returns a client.
func New(s Settings, log *slog.Logger) *Client {
	return &Client{
		Settings: s,
		Log:      log,
		http: &http.Client{
			Transport: transport.Bound(&http.Transport{
				Proxy:                 http.ProxyFromEnvironment,
				DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
				TLSHandshakeTimeout:   dialTimeout,
				ResponseHeaderTimeout: headerTimeout,
				IdleConnTimeout:       60 * time.Second,
				MaxIdleConnsPerHost:   parallel,
				ForceAttemptHTTP2:     true,
				DisableCompression:    true, // sizes and ranges are those of the file
			}),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // send follows redirects
		},
		slots: make(chan struct{}, parallel),
		sleep: backoff.Sleep,
		stall: stallTimeout,
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// send sends a request and follows redirects. The token is sent only to the host of Endpoint. The response has status
// 2xx; any other status is a *statusError. from is the address that sent the response.
func (c *Client) send(ctx context.Context, method, address string, header http.Header) (resp *http.Response, from string, err error) {
	for range maxRedirects {
		req, err := http.NewRequestWithContext(ctx, method, address, nil)
		if err != nil {
			return nil, "", permanent{err}
		}
		for name, values := range header {
			req.Header[name] = values
		}
		req.Header.Set("User-Agent", "openmanus")
		req.Header.Set("Accept-Encoding", "identity")
		if c.Token != "" && c.atEndpoint(req.URL) {
			req.Header.Set("Authorization", "Bearer "+c.Token)
		}
		resp, err := c.http.Do(req)
		if err != nil {
			return nil, "", &connectError{withoutQuery(address), err}
		}
		c.answered.Store(true)
		to := resp.Header.Get("Location")
		if resp.StatusCode/100 != 3 || to == "" || method == http.MethodHead && resp.Header.Get(linkedETag) != "" {
			if resp.StatusCode/100 == 2 || resp.StatusCode/100 == 3 && method == http.MethodHead {
				return resp, address, nil
			}
			e := newStatusError(address, resp)
			e.storage = !c.atEndpoint(req.URL)
			return nil, "", e
		}
		_ = resp.Body.Close() // the body of a redirect is not read
		next, err := req.URL.Parse(to)
		if err != nil {
			return nil, "", fmt.Errorf("%s: redirect to %.200q: %w", address, to, err)
		}
		if next.Scheme != "https" && (next.Scheme != "http" || req.URL.Scheme == "https") {
			return nil, "", permanent{fmt.Errorf("%s redirects from %s to %.80q, which is not allowed", address, req.URL.Scheme, next.Scheme)}
		}
		address = next.String()
	}
	return nil, "", permanent{fmt.Errorf("%s: more than %d redirects", address, maxRedirects)}
}

// atEndpoint reports whether a request goes to the host of Endpoint.
func (c *Client) atEndpoint(u *url.URL) bool {
	e, err := url.Parse(c.Endpoint)
	return err == nil && e.Scheme == u.Scheme && e.Host == u.Host
}

// retry calls f until it succeeds, its error is permanent, or too many attempts in a row fail without progress. f
// reports progress with its result moved.
func (c *Client) retry(ctx context.Context, f func() (moved bool, err error)) error {
	for failed := 0; ; {
		moved, err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if moved {
			failed = 0
		}
		failed++
		if !temporary(err) || failed == attempts || failed == firstAttempts && !c.answered.Load() {
			return err
		}
		pause := backoff.Delay(firstPause, longestPause, failed)
		if s, ok := errors.AsType[*statusError](err); ok && s.retryAfter > 0 {
			if s.retryAfter > longestWait {
				return fmt.Errorf("%w; it asks to wait %v", err, s.retryAfter)
			}
			pause = s.retryAfter
		}
		c.Log.Warn("a request to the hub failed and is repeated", "error", err, "pause", pause.Round(time.Second/10))
		if !c.sleep(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

// connectError is the error of a request without a response.
type connectError struct {
	url string
	err error
}

func (e *connectError) Error() string {
	err := e.err
	if u, ok := errors.AsType[*url.Error](err); ok { // its text repeats the address, with the signature
		err = u.Err
	}
	return fmt.Sprintf("%s: %v", e.url, err)
}

func (e *connectError) Unwrap() error { return e.err }

// permanent is an error that further attempts do not mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// temporary reports whether another attempt can succeed.
func temporary(err error) bool {
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.temporary()
	}
	if _, ok := errors.AsType[permanent](err); ok {
		return false
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	dns, ok := errors.AsType[*net.DNSError](err)
	return !ok || !dns.IsNotFound // a name that does not exist: no network, or a wrong HF_ENDPOINT
}

// getSmall reads a whole reply of the API.
func (c *Client) getSmall(ctx context.Context, address string) (body []byte, err error) {
	err = c.retry(ctx, func() (bool, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(context.Canceled)
		resp, _, err := c.send(ctx, http.MethodGet, address, nil)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		body, err = io.ReadAll(io.LimitReader(c.watched(resp.Body, cancel), maxInfo+1))
		if err != nil {
			err = &connectError{address, err}
		} else if len(body) > maxInfo {
			err = permanent{fmt.Errorf("%s: the reply has more than %d bytes", address, maxInfo)}
		}
		return false, causeOf(ctx, err)
	})
	return body, err
}

// errStalled is the cause with which watched cancels a request whose body stalls.
var errStalled = errors.New("the server sent nothing")

// watched returns a reader that cancels the request with errStalled if no data arrives for c.stall.
func (c *Client) watched(body io.Reader, cancel context.CancelCauseFunc) io.Reader {
	return &watchedBody{r: body, limit: c.stall, cancel: cancel}
}

type watchedBody struct {
	r      io.Reader
	limit  time.Duration
	cancel context.CancelCauseFunc
}

func (w *watchedBody) Read(p []byte) (int, error) {
	t := time.AfterFunc(w.limit, func() { w.cancel(fmt.Errorf("%w for %v", errStalled, w.limit)) })
	defer t.Stop()
	return w.r.Read(p)
}

// causeOf returns the cause of ctx if ctx has ended, and err otherwise.
func causeOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// address returns the URL of a path below Endpoint. The parts are escaped, except for the slashes of a file's path.
func (c *Client) address(parts ...string) string {
	var b strings.Builder
	b.WriteString(c.Endpoint)
	for _, part := range parts {
		b.WriteByte('/')
		b.WriteString(part)
	}
	return b.String()
}

// escapePath escapes the parts of a path between slashes.
func escapePath(p string) string {
	parts := strings.Split(p, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}
