// Package transport bounds what an HTTP server may send before its reply.
//
// It owns the rule for informational responses (status 100 to 199), which
// net/http leaves open: 101 Switching Protocols turns the connection into a
// stream that no context ends, and other ones may come for ever. It does not
// own time limits: those are in the context of each request.
//
// Concurrency: a transport that Bound returns is as safe as the one it wraps.
package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync/atomic"
)

// MaxInformational is how many informational responses may precede a reply.
const MaxInformational = 16

// The errors of a server that does not come to its reply.
var (
	ErrSwitch        = errors.New("the server switches protocols (status 101), which was not asked for")
	ErrInformational = fmt.Errorf("the server sends more than %d informational responses (status 1xx) and no reply", MaxInformational)
)

// Bound returns a transport that fails with ErrSwitch or ErrInformational where
// next would wait.
func Bound(next http.RoundTripper) http.RoundTripper { return bounded{next} }

type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	var seen atomic.Int64
	// An error of Got1xxResponse is lost where the caller traces the same event,
	// as httputil.ReverseProxy does: the context's end is not.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			if seen.Add(1) > MaxInformational {
				cancel(ErrInformational)
				return ErrInformational
			}
			return nil
		},
	})
	resp, err := b.next.RoundTrip(req.WithContext(ctx))
	switch {
	case seen.Load() > MaxInformational:
		err = ErrInformational
	case err == nil && resp.StatusCode == http.StatusSwitchingProtocols:
		err = ErrSwitch
	}
	if err != nil {
		cancel(err)
		if resp != nil {
			_ = resp.Body.Close() // nothing more is read from it
		}
		return nil, err
	}
	resp.Body = body{resp.Body, cancel}
	return resp, nil
}

// body ends the request's context when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b body) Close() error {
	defer b.cancel(context.Canceled)
	return b.ReadCloser.Close()
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach next.
func (b bounded) CloseIdleConnections() {
	if next, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}
