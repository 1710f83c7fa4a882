package supervise

import (
	"context"
	"errors"
	"time"

	"github.com/openmanus/openmanus/internal/backoff"
)

// Pauses between requests that check whether a server answers.
const (
	pulseLeast = 50 * time.Millisecond
	pulseMost  = 10 * time.Second
)

// pulse requests the greeting of the server at url repeatedly. It returns when no
// request has been answered for limit, or ctx ends. Any answer counts, because the
// pool handles servers that fail. A request waits as long as limit, since a server may
// be busy with a long request.
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
