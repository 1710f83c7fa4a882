package supervise

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/openmanus/openmanus/data/transport"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/backoff"
)

// The pauses between requests to a starting server, and the time limit of a request.
const (
	minPause   = 20 * time.Millisecond
	maxPause   = 300 * time.Millisecond
	answerTime = 5 * time.Second
)

// ready waits until the server at url answers GET /. An open port is not enough: the
// imports of a server may take minutes, and wrappers open ports early.
func ready(ctx context.Context, url string) error {
	client := probeClient(answerTime)
	defer client.CloseIdleConnections()
	last := errors.New("no answer")
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		_, err := env.Greet(ctx, client, url+"/")
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		if !backoff.Sleep(ctx, pause) {
			return fmt.Errorf("%w: %v", context.Cause(ctx), last)
		}
	}
}

// probeClient returns a client that opens a connection for each request and limits its time.
func probeClient(limit time.Duration) *http.Client {
	return &http.Client{Timeout: limit, Transport: transport.Bound(&http.Transport{
		DialContext:       (&net.Dialer{Timeout: answerTime}).DialContext,
		DisableKeepAlives: true,
	})}
}

// These constants limit the pause between requests to a running server.
const (
	minHangPause = 50 * time.Millisecond
	maxHangPause = 10 * time.Second
)

// awaitHang requests the greeting of the server at url repeatedly. It returns when no
// request has been answered for limit, or ctx ends. Any answer counts, even
// an error, because the pool handles errors. limit is also the time limit of a request,
// since a server may be busy with a long request.
func awaitHang(ctx context.Context, url string, limit time.Duration) {
	client := probeClient(limit)
	defer client.CloseIdleConnections()
	pause := min(max(limit/8, minHangPause), maxHangPause)
	for answered := time.Now(); backoff.Sleep(ctx, pause); {
		_, err := env.Greet(ctx, client, url+"/")
		switch {
		case err == nil, errors.Is(err, env.KindServer):
			answered = time.Now()
		case time.Since(answered) >= limit:
			return
		}
	}
}
