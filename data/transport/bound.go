// Package transport bounds the informational responses of an HTTP server.
//
// net/http does not limit informational responses (status 100 to 199): 101
// Switching Protocols turns the connection into a stream that no context ends, and a
// server can send endless responses of the other statuses. This package sets no time
// limits: they are in the context of each request.
//
// A transport returned by Bound is as safe for concurrent use as the one it wraps.
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

// MaxInformational is the maximal number of informational responses before a reply.
const MaxInformational = 16

// Errors of servers that send no reply.
var (
	ErrSwitch        = errors.New("the server switches protocols (status 101) without a request to do so")
	ErrInformational = fmt.Errorf("the server sent more than %d informational responses (status 1xx) and no reply", MaxInformational)
)

// Bound wraps the transport next. The returned transport fails with ErrSwitch or
// ErrInformational if next would never return.
func Bound(next http.RoundTripper) http.RoundTripper { return bounded{next} }

type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	var seen atomic.Int64
	// An error returned by Got1xxResponse is lost if the caller traces the same
	// event, as httputil.ReverseProxy does. Cancelling the context always works.
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
			_ = resp.Body.Close() // the body is not read
		}
		return nil, err
	}
	resp.Body = body{resp.Body, cancel}
	return resp, nil
}

// body cancels the context of the request when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b body) Close() error {
	defer b.cancel(context.Canceled)
	return b.ReadCloser.Close()
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (b bounded) CloseIdleConnections() {
	if next, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}
