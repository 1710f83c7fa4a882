package pool

import (
	"context"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/env"
)

// Version returns the versions of the pool's servers, each once, in order: see
// ServerVersion. It is an error if a server does not answer.
func (p *Pool) Version(ctx context.Context) (string, error) {
	var names []string
	for _, s := range p.servers {
		name, err := env.ServerVersion(ctx, p.o.Client.HTTPClient(), s.root)
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
