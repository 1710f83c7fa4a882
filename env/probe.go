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

// DescriptionPath is the path of FastAPI's description of a server. Fault injection adds
// no faults to requests for this path, because clients do not count failures of these requests.
const DescriptionPath = "/openapi.json"

const (
	probeTimeout   = 5 * time.Second
	versionTimeout = 15 * time.Second
	versionTries   = 3
)

// Greet requests the root of a server and returns its greeting. Any reply below
// status 500 is a greeting. The time limit is client.Timeout, or 5 s if client.Timeout is 0.
func Greet(ctx context.Context, client *http.Client, root string) (string, error) {
	c := caller{o: Options{Client: client, MaxReply: DefaultMaxReply}}
	limit := cmp.Or(client.Timeout, probeTimeout)
	a, err := c.roundTrip(ctx, limit, http.MethodGet, root, "")
	if err != nil || a.status >= http.StatusInternalServerError {
		return "", c.classify(ctx, OpProbe, root, limit, a, err)
	}
	return string(a.body), nil
}

// ServerVersion returns the title and version in a server's description, which
// AgentGym's servers have by default, and "" without a description.
func ServerVersion(ctx context.Context, client *http.Client, root string) (string, error) {
	c := caller{base: strings.TrimSuffix(root, "/"), o: Options{
		Client: client, Timeout: versionTimeout, Attempts: versionTries, Backoff: defaultBackoff, MaxReply: DefaultMaxReply,
	}}
	reply, err := c.get(ctx, OpVersion, DescriptionPath)
	if e, ok := errors.AsType[*Error](err); ok && (e.Status == http.StatusNotFound || e.Kind == KindMalformed) {
		return "", nil // the reply is an HTML page, or the path does not exist
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
		return "", nil // the reply is not a description
	}
	return strings.TrimSpace(d.Info.Title + " " + d.Info.Version), nil
}
