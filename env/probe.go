package env

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/openmanus/openmanus/data/transport"
	"github.com/openmanus/openmanus/internal/backoff"
)

// DescriptionPath is where FastAPI describes a server. No client counts
// requests for it, so fault injection leaves them alone.
const DescriptionPath = "/openapi.json"

const (
	probeTimeout = 5 * time.Second
	versionTries = 3
	maxGreeting  = 4096 // bytes
)

// Greet requests the root of a server and returns its greeting. Any reply below
// status 500 is one. The time limit is that of client, 5 s if it has none.
func Greet(ctx context.Context, client *http.Client, root string) (string, error) {
	status, body, failure := fetch(ctx, client, OpProbe, root, maxGreeting)
	if failure != nil {
		return "", failure
	}
	if status >= http.StatusInternalServerError {
		return "", &Error{Kind: KindServer, Op: OpProbe, URL: root, Status: status, Words: transport.Excerpt(string(body)), Sent: true}
	}
	return string(body), nil
}

// ServerVersion returns the title and version that a server states at
// DescriptionPath, as AgentGym's servers do by default, and "" if it has no
// description. It asks again if a request fails.
func ServerVersion(ctx context.Context, client *http.Client, root string) (string, error) {
	address := strings.TrimSuffix(root, "/") + DescriptionPath
	for try := 1; ; try++ {
		status, body, failure := fetch(ctx, client, OpVersion, address, DefaultMaxReply)
		switch {
		case failure == nil && status == http.StatusOK:
			var d struct {
				Info struct{ Title, Version string }
			}
			if json.Unmarshal(body, &d) != nil {
				return "", nil // a page, not a description
			}
			return strings.TrimSpace(d.Info.Title + " " + d.Info.Version), nil
		case failure == nil && status == http.StatusNotFound:
			return "", nil
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case failure == nil:
			failure = &Error{Kind: KindServer, Op: OpVersion, URL: address, Status: status, Words: transport.Excerpt(string(body)), Sent: true}
			if status < http.StatusInternalServerError {
				failure.Kind = KindValidation
			}
		}
		if try == versionTries || !backoff.Sleep(ctx, backoff.Delay(defaultBackoff, maxBackoff, try)) {
			return "", failure
		}
	}
}

// fetch sends one GET request that belongs to no instance. It returns at most
// limit bytes of the reply.
func fetch(ctx context.Context, client *http.Client, op, address string, limit int64) (status int, body []byte, failure *Error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(client.Timeout, probeTimeout))
	defer cancel()
	failed := func(err error) *Error {
		e := &Error{Kind: KindConnection, Op: op, URL: address, Status: status, Sent: status != 0, Err: cause(err)}
		if op == OpVersion && ctx.Err() != nil {
			e.Kind, e.Sent = KindTimeout, true
		}
		return e
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, failed(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, failed(err)
	}
	defer resp.Body.Close()
	status = resp.StatusCode
	if body, err = io.ReadAll(io.LimitReader(resp.Body, limit)); err != nil {
		return status, nil, failed(err)
	}
	return status, body, nil
}
