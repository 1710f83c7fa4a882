package env

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
)

// DescriptionPath is where FastAPI describes a server. No client counts
// requests for it, so fault injection leaves them alone.
const DescriptionPath = "/openapi.json"

const (
	probeTimeout   = 5 * time.Second
	versionTimeout = 15 * time.Second
	versionTries   = 3
)

// Greet requests the root of a server and returns its greeting. Any reply below
// status 500 is one. The time limit is that of client, 5 s if it has none.
func Greet(ctx context.Context, client *http.Client, root string) (string, error) {
	c := caller{o: Options{Client: client, MaxReply: DefaultMaxReply}}
	limit := cmp.Or(client.Timeout, probeTimeout)
	a, err := c.roundTrip(ctx, limit, http.MethodGet, root, "")
	if err != nil || a.status >= http.StatusInternalServerError {
		return "", c.classify(ctx, OpProbe, root, limit, a, err)
	}
	return string(a.body), nil
}

// ServerVersion returns the title and version that a server states at
// DescriptionPath, as AgentGym's servers do by default, and "" if it has no
// description.
func ServerVersion(ctx context.Context, client *http.Client, root string) (string, error) {
	c := caller{base: strings.TrimSuffix(root, "/"), o: Options{
		Client: client, Timeout: versionTimeout, Attempts: versionTries, Backoff: defaultBackoff, MaxReply: DefaultMaxReply,
	}}
	reply, err := c.get(ctx, OpVersion, DescriptionPath)
	var e *Error
	if errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Kind == KindMalformed) {
		return "", nil // a page, or nothing
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", err
	}
	var d struct {
		Info struct{ Title, Version string }
	}
	if json.Unmarshal(reply, &d) != nil {
		return "", nil // not a description
	}
	return strings.TrimSpace(d.Info.Title + " " + d.Info.Version), nil
}
