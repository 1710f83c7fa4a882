package env

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/internal/backoff"
)

// DescriptionPath is where FastAPI describes a server. No client counts what
// becomes of a request for it, so faults that are injected spare it.
const DescriptionPath = "/openapi.json"

// versionTries is how often a server is asked that did not answer.
const versionTries = 3

// Version is what the pool's servers call themselves: title and version of the
// description that FastAPI serves at DescriptionPath, which AgentGym's servers
// have where nobody turned it off. It is "" where none has one, and names all
// there are where they differ. A server that does not say whether it has one
// is an error.
func (p *Pool) Version(ctx context.Context) (string, error) {
	var names []string
	for _, s := range p.servers {
		name, err := p.versionOf(ctx, s.root)
		if err != nil {
			return "", err
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", "), nil
}

func (p *Pool) versionOf(ctx context.Context, root string) (string, error) {
	for try := 1; ; try++ {
		body, failure := describe(ctx, p.httpClient(), strings.TrimSuffix(root, "/")+DescriptionPath)
		switch {
		case failure == nil:
			var d struct {
				Info struct{ Title, Version string }
			}
			if json.Unmarshal(body, &d) != nil {
				return "", nil // a page of another kind: it describes nothing
			}
			return strings.TrimSpace(d.Info.Title + " " + d.Info.Version), nil
		case failure.Status == http.StatusNotFound:
			return "", nil
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		}
		if try == versionTries || !backoff.Sleep(ctx, backoff.Delay(defaultBackoff, maxBackoff, try)) {
			return "", failure
		}
	}
}

// describe asks a server for its description once.
func describe(ctx context.Context, client *http.Client, address string) ([]byte, *Error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	failed := func(status int, err error) *Error {
		e := &Error{Kind: KindConnection, Op: opVersion, URL: address, Status: status, Sent: status != 0, Err: cause(err)}
		if ctx.Err() != nil {
			e.Kind, e.Sent = KindTimeout, true
		}
		return e
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, failed(0, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, failed(0, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, DefaultMaxReply))
	if err != nil {
		return nil, failed(resp.StatusCode, err)
	}
	if resp.StatusCode != http.StatusOK {
		kind := KindServer
		if resp.StatusCode < http.StatusInternalServerError {
			kind = KindValidation
		}
		return nil, &Error{Kind: kind, Op: opVersion, URL: address, Status: resp.StatusCode, Words: shorten(string(body)), Sent: true}
	}
	return body, nil
}
