package supervise

import (
	"context"
	"errors"
	"time"

	"github.com/openmanus/openmanus/internal/backoff"
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
	client := askingClient(limit)
	defer client.CloseIdleConnections()
	pause := min(max(limit/8, pulseLeast), pulseMost)
	for answered := time.Now(); backoff.Sleep(ctx, pause); {
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
