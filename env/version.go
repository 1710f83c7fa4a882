package env

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
)

// versionTries is how often a server is asked that did not answer.
const versionTries = 3

// Version is what the pool's servers call themselves: title and version of the
// description that FastAPI serves at /openapi.json, which AgentGym's servers
// have where nobody turned it off. It is "" where none says, and names all
// there are where they differ.
func (p *Pool) Version(ctx context.Context) string {
	var names []string
	for _, s := range p.servers {
		if name := p.versionOf(ctx, s.root); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (p *Pool) versionOf(ctx context.Context, root string) string {
	for try := 1; ; try++ {
		status, body, err := describe(ctx, p.httpClient(), root+"openapi.json")
		if err == nil && status == http.StatusOK {
			var d struct {
				Info struct{ Title, Version string }
			}
			if json.Unmarshal(body, &d) != nil {
				return ""
			}
			return strings.TrimSpace(d.Info.Title + " " + d.Info.Version)
		}
		if err == nil && status < 500 || try == versionTries || !sleep(ctx, jittered(defaultBackoff, try)) {
			return ""
		}
	}
}

func describe(ctx context.Context, client *http.Client, address string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, DefaultMaxReply))
	return resp.StatusCode, body, err
}
