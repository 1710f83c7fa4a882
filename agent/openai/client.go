// Package openai is a client of OpenAI's chat completions API
// (https://platform.openai.com/docs/api-reference/chat), which vLLM, SGLang,
// llama.cpp, ollama and hosted services implement too.
//
// Client is a connection to one endpoint, with limits on concurrency, time and
// retries. Speaker uses a Client to play episodes (agent/text). The caller
// provides the API key, which is never logged or written.
//
// Concurrency: many goroutines may use a Client and a Speaker. No goroutine
// outlives a call; Close closes idle connections.
package openai

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/transport"
	"github.com/openmanus/openmanus/internal/backoff"
)

// Client sends requests to one endpoint.
type Client struct {
	o     Options
	http  *http.Client
	slots chan struct{} // bounds the concurrent requests

	// Tests replace these.
	sleep        func(context.Context, time.Duration) bool
	checkTimeout time.Duration
	maxReply     int64

	newLimit atomic.Bool // the endpoint requires max_completion_tokens
	usage    struct{ requests, retries, prompt, completion atomic.Int64 }
}

// New returns a client. It sends no request; Check does.
func New(o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Client{
		o: o,
		http: &http.Client{
			Transport: transport.Bound(&http.Transport{
				Proxy:               http.ProxyFromEnvironment, // a hosted endpoint may need a proxy
				DialContext:         (&net.Dialer{Timeout: checkTimeout, KeepAlive: 30 * time.Second}).DialContext,
				TLSHandshakeTimeout: checkTimeout,
				MaxIdleConnsPerHost: o.Concurrency,
				IdleConnTimeout:     30 * time.Second,
				ForceAttemptHTTP2:   true,
			}),
			// Following a redirect would send the key to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		slots: make(chan struct{}, o.Concurrency),
		sleep: backoff.Sleep, checkTimeout: checkTimeout, maxReply: maxReply,
	}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Usage returns the totals of all requests so far. The endpoint reports the
// token counts; some endpoints report none.
func (c *Client) Usage() Usage {
	u := &c.usage
	return Usage{
		Requests: u.requests.Load(), Retries: u.retries.Load(),
		PromptTokens: u.prompt.Load(), CompletionTokens: u.completion.Load(),
	}
}

// Chat requests one reply. It retries temporary failures after the pause that
// the endpoint requests, or after a growing pause. The error is the *Error of
// the last attempt.
func (c *Client) Chat(ctx context.Context, r Request) (Reply, error) {
	return c.chat(ctx, r, c.o.Attempts)
}

func (c *Client) chat(ctx context.Context, r Request, attempts int) (Reply, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return Reply{}, c.cancelled(ctx)
	}
	for attempt := 1; ; attempt++ {
		useNew := c.newLimit.Load()
		body, err := r.body(c.o.Model, useNew)
		if err != nil {
			return Reply{}, err
		}
		reply, fault := c.once(ctx, http.MethodPost, chatPath, body, c.o.Timeout)
		if fault == nil {
			return reply, nil
		}
		fault.Attempts = attempt
		if fault.Kind == KindRefused && !useNew && strings.Contains(fault.Words, newLimit) {
			// OpenAI's reasoning models reject max_tokens with an error that names max_completion_tokens.
			if c.newLimit.CompareAndSwap(false, true) {
				c.o.Log.Info("the endpoint requires "+newLimit+" instead of max_tokens; using it from now on", "model", c.o.Model)
			}
			attempt--
			continue
		}
		if !kinds[fault.Kind].retry || attempt >= attempts {
			return Reply{}, fault
		}
		wait := backoff.Delay(firstPause, maxPause, attempt)
		if fault.wait > maxPause {
			fault.Err = fmt.Errorf("the endpoint requests a wait of %v, longer than the limit of %v", fault.wait, maxPause)
			return Reply{}, fault
		} else if fault.wait > 0 {
			wait = fault.wait
		}
		c.o.Log.Debug("endpoint failed, retrying", "attempt", attempt, "wait", wait, "error", fault)
		if !c.sleep(ctx, wait) {
			return Reply{}, c.cancelled(ctx)
		}
		c.usage.retries.Add(1)
	}
}

func (c *Client) cancelled(ctx context.Context) *Error {
	return &Error{Kind: KindCancelled, URL: c.o.BaseURL, Err: context.Cause(ctx)}
}

// once sends one request and classifies the response.
func (c *Client) once(ctx context.Context, method, path string, body []byte, timeout time.Duration) (Reply, *Error) {
	c.usage.requests.Add(1)
	status, header, text, err := c.roundTrip(ctx, method, path, body, timeout)
	fault := c.classify(ctx, status, header, text, err, timeout)
	var reply Reply
	if fault == nil && path == chatPath {
		reply, fault = parseReply(text)
		c.usage.prompt.Add(reply.Usage.PromptTokens) // counted even if the reply is unusable
		c.usage.completion.Add(reply.Usage.CompletionTokens)
	}
	if fault != nil {
		fault.URL = c.o.BaseURL + path
		fault.Status = cmp.Or(fault.Status, status)
		if c.o.Key != "" {
			fault.Words = strings.ReplaceAll(fault.Words, c.o.Key, "[key]")
		}
	}
	return reply, fault
}

var errOversize = errors.New("reply longer than the limit")

func (c *Client) roundTrip(ctx context.Context, method, path string, body []byte, timeout time.Duration) (int, http.Header, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.o.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "openmanus")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.Key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, c.maxReply+1))
	if err == nil && int64(len(text)) > c.maxReply {
		err = errOversize
	}
	return resp.StatusCode, resp.Header, text, err
}

// classify returns the Error of an exchange, or nil for status 200.
func (c *Client) classify(ctx context.Context, status int, header http.Header, body []byte, err error, timeout time.Duration) *Error {
	e := &Error{Status: status, Err: err}
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			e.Err = u.Err // without the address, which Error.Error prints
		}
		var ne net.Error
		switch {
		case ctx.Err() != nil:
			e.Kind, e.Err = KindCancelled, context.Cause(ctx)
		case errors.Is(err, errOversize):
			e.Kind, e.Err = KindOversize, fmt.Errorf("more than %d bytes", c.maxReply)
		case errors.Is(err, context.DeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
			e.Kind, e.Err = KindTimeout, fmt.Errorf("no complete reply within %v", timeout)
		default:
			e.Kind = KindConnection
		}
		return e
	}
	if status == http.StatusOK {
		return nil
	}
	var code string
	e.Words, code = errorWords(body)
	e.wait = retryAfter(header, time.Now())
	switch {
	case status >= 500:
		e.Kind = KindServer
	case status == http.StatusTooManyRequests && code == "insufficient_quota", status == http.StatusPaymentRequired:
		e.Kind = KindQuota
	case status == http.StatusTooManyRequests:
		e.Kind = KindRate
	case status == http.StatusRequestTimeout:
		e.Kind = KindTimeout
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		e.Kind = KindAuth
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status >= 300 && status < 400:
		e.Kind = KindMissing
	case status >= 400 && tooLong(e.Words, code):
		e.Kind = KindContext
	case status >= 400:
		e.Kind = KindRefused
	default:
		e.Kind = KindMalformed
	}
	return e
}

// Check tests within seconds whether the endpoint is usable. It requests the
// list of models, which every running server answers, possibly with an error
// status. It then requests a reply of at most 16 tokens with the parameters of
// r, which fails for a wrong model name, a wrong key or an unknown parameter.
// Check replaces the messages and the token limit of r.
func (c *Client) Check(ctx context.Context, r Request) error {
	_, fault := c.once(ctx, http.MethodGet, modelsPath, nil, c.checkTimeout)
	if fault != nil {
		switch fault.Kind { // ignore other failures: the key may not be allowed to list models
		case KindConnection, KindTimeout, KindCancelled:
			return fault
		}
	}
	r.Messages = []data.Message{{Role: "user", Content: "Say yes."}}
	r.MaxTokens = 16
	_, err := c.chat(ctx, r, min(c.o.Attempts, 3))
	return err
}
