package check

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/openmanus/openmanus/data/transport"
)

// maxReply bounds a reply; AgentGym's replies are smaller.
const maxReply = 16 << 20

// request is one HTTP request, sent unmodified.
type request struct {
	method string
	target string // path and query, not cleaned
	kind   string // Content-Type, none if empty
	body   string
}

// reply is an HTTP reply with the undecoded body.
type reply struct {
	status int
	header http.Header
	body   []byte
	sized  bool // it has a Content-Length
	closes bool // the server announced that it closes the connection
	took   time.Duration
}

// Failures without a complete reply.
var (
	errTimeout = errors.New("no complete reply within the time limit")
	errRefused = errors.New("no connection")
	errBroken  = errors.New("the connection ended")
	errNotHTTP = errors.New("not an HTTP reply")
	errTooLong = fmt.Errorf("a reply of more than %d MiB", maxReply>>20)
)

// wire opens connections to one server.
type wire struct {
	secure  bool
	addr    string // host:port
	host    string // for the Host header
	prefix  string // path in front of every target
	timeout time.Duration
}

func newWire(base string, timeout time.Duration) (*wire, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("server address: %w", err)
	}
	w := &wire{secure: u.Scheme == "https", addr: u.Host, host: u.Host, prefix: u.EscapedPath(), timeout: timeout}
	if u.Port() == "" {
		port := "80"
		if w.secure {
			port = "443"
		}
		w.addr = net.JoinHostPort(u.Hostname(), port)
	}
	return w, nil
}

// link is one connection.
type link struct {
	wire *wire
	conn net.Conn
	in   *bufio.Reader
}

func (w *wire) open(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	var conn net.Conn
	var err error
	if w.secure {
		conn, err = (&tls.Dialer{}).DialContext(ctx, "tcp", w.addr)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", w.addr)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errRefused, err)
	}
	return &link{wire: w, conn: conn, in: bufio.NewReader(conn)}, nil
}

func (l *link) close() { _ = l.conn.Close() }

// do sends one request on a new connection, like Python's clients.
func (w *wire) do(ctx context.Context, r request) (reply, error) {
	began := time.Now()
	l, err := w.open(ctx)
	if err != nil {
		return reply{}, err
	}
	defer l.close()
	got, err := l.do(ctx, r, false)
	got.took = time.Since(began)
	return got, err
}

// do sends one request and reads the reply within the time limit. keep requests
// a persistent connection.
func (l *link) do(ctx context.Context, r request, keep bool) (reply, error) {
	began := time.Now()
	if err := l.conn.SetDeadline(began.Add(l.wire.timeout)); err != nil {
		return reply{}, fmt.Errorf("%w: %v", errBroken, err)
	}
	// Cancelling ctx ends reads and writes of the connection.
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: openmanus-check\r\nAccept: */*\r\n", r.method, l.wire.prefix+r.target, l.wire.host)
	if r.kind != "" {
		fmt.Fprintf(&b, "Content-Type: %s\r\n", r.kind)
	}
	if r.method != http.MethodGet {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.body))
	}
	if !keep {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n" + r.body)
	if _, err := l.conn.Write(b.Bytes()); err != nil {
		return reply{}, l.failure(ctx, err, "while the request was sent")
	}
	resp, err := l.readHead(r.method)
	if err != nil {
		return reply{}, l.failure(ctx, err, "before a reply")
	}
	defer resp.Body.Close()
	got := reply{
		status: resp.StatusCode, header: resp.Header, sized: resp.ContentLength >= 0, closes: resp.Close,
	}
	got.body, err = io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	got.took = time.Since(began)
	switch {
	case err != nil && got.sized:
		return got, l.failure(ctx, err, fmt.Sprintf("after %d of %d bytes", len(got.body), resp.ContentLength))
	case err != nil:
		return got, l.failure(ctx, err, fmt.Sprintf("after %d bytes", len(got.body)))
	case len(got.body) > maxReply:
		return got, errTooLong
	}
	return got, nil
}

// readHead reads the status line and headers, skipping a few 1xx replies.
func (l *link) readHead(method string) (*http.Response, error) {
	for range transport.MaxInformational + 1 {
		resp, err := http.ReadResponse(l.in, &http.Request{Method: method})
		switch {
		case err != nil || resp.StatusCode >= http.StatusOK:
			return resp, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, transport.ErrSwitch
		}
	}
	return nil, transport.ErrInformational
}

// failure converts a connection error to one of the errors above.
func (l *link) failure(ctx context.Context, err error, when string) error {
	var ne net.Error
	var op *net.OpError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &ne) && ne.Timeout():
		return fmt.Errorf("%w (%v)", errTimeout, l.wire.timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &op):
		return fmt.Errorf("%w %s", errBroken, when)
	}
	return fmt.Errorf("%w: %v", errNotHTTP, err)
}

// endsWithin waits until the server closes an idle connection, d at most, and
// reports whether it did.
func (l *link) endsWithin(d time.Duration) bool {
	if err := l.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		return true
	}
	_, err := l.in.Peek(1)
	var ne net.Error
	return !(errors.As(err, &ne) && ne.Timeout())
}
