package supervise

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// The pauses between two questions whether a server still answers.
const (
	pulseLeast = 50 * time.Millisecond
	pulseMost  = 10 * time.Second
)

// pulse asks the server at url for its greeting again and again and returns
// when none has been answered for limit, or ctx ends. Whatever is answered will
// do: a server that fails is the pool's concern. One question waits as long as
// limit, since a server may be busy with one long request before it.
func pulse(ctx context.Context, url string, limit time.Duration) {
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: answerTime}).DialContext, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: limit}
	pause := min(max(limit/8, pulseLeast), pulseMost)
	for answered := time.Now(); sleep(ctx, pause); {
		err := ask(ctx, client, url)
		var status *statusError
		switch {
		case err == nil, errors.As(err, &status):
			answered = time.Now()
		case time.Since(answered) >= limit:
			return
		}
	}
}
