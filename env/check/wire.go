package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/openmanus/openmanus/data/transport"
)

// maxReply is the largest size of a reply in bytes. AgentGym's replies are smaller.
const maxReply = 16 << 20

// request is one HTTP request.
type request struct {
	method string
	target string // path and query, sent unmodified
	kind   string // Content-Type; "": no header
	body   string
}

// reply is an HTTP reply with the undecoded body.
type reply struct {
	status int
	header http.Header
	body   []byte
	sized  bool // the reply has a Content-Length
	reused bool // the connection served an earlier request
	closes bool // the server announced that it will close the connection
	took   time.Duration
}

// These errors describe failures without a complete reply.
var (
	errTimeout = errors.New("no complete reply within the time limit")
	errRefused = errors.New("no connection")
	errBroken  = errors.New("the connection ended")
	errNotHTTP = errors.New("not an HTTP reply")
	errTooLong = fmt.Errorf("a reply of more than %d MiB", maxReply>>20)
)

// wire sends requests to one server.
type wire struct {
	base    string // the beginning of every address
	timeout time.Duration
}

// fresh opens a connection for each request, like Python's clients. A transport
// with a DialContext speaks HTTP/1.1 only.
var fresh = &http.Transport{DialContext: (&net.Dialer{}).DialContext, DisableKeepAlives: true, DisableCompression: true}

// keeping returns a transport that keeps a connection open. It calls the function
// ended when a connection ends.
func keeping(ended func()) *http.Transport {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return watched{conn, ended}, nil
	}
	return &http.Transport{DialContext: dial, DisableCompression: true}
}

// watched is a connection that calls the function ended when it is closed. The transport
// closes it when the server closes its end.
type watched struct {
	net.Conn
	ended func()
}

func (w watched) Close() error {
	w.ended()
	return w.Conn.Close()
}

// do sends one request and reads the reply within the time limit.
func (w wire) do(ctx context.Context, over *http.Transport, r request) (reply, error) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	var got reply
	connected := false
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(limited, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { connected, got.reused = true, i.Reused },
	}), r.method, w.base+r.target, strings.NewReader(r.body))
	if err != nil {
		return got, err
	}
	req.Header.Set("User-Agent", "openmanus-check")
	req.Header.Set("Accept", "*/*")
	if r.kind != "" {
		req.Header.Set("Content-Type", r.kind)
	}
	resp, err := transport.Bound(over).RoundTrip(req)
	if err != nil {
		if !connected && ctx.Err() == nil {
			return got, fmt.Errorf("%w: %v", errRefused, err)
		}
		return got, w.failure(ctx, err, "before a reply")
	}
	defer resp.Body.Close()
	got.status, got.header, got.sized, got.closes = resp.StatusCode, resp.Header, resp.ContentLength >= 0, resp.Close
	got.body, err = io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	got.took = time.Since(began)
	switch {
	case err != nil && got.sized:
		return got, w.failure(ctx, err, fmt.Sprintf("after %d of %d bytes", len(got.body), resp.ContentLength))
	case err != nil:
		return got, w.failure(ctx, err, fmt.Sprintf("after %d bytes", len(got.body)))
	case len(got.body) > maxReply:
		return got, errTooLong
	}
	return got, nil
}

// failure converts an error of a connection to an error of this package.
func (w wire) failure(ctx context.Context, err error, when string) error {
	var op *net.OpError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w (%v)", errTimeout, w.timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &op):
		return fmt.Errorf("%w %s", errBroken, when)
	}
	return fmt.Errorf("%w: %v", errNotHTTP, err)
}
