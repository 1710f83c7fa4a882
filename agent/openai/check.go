package openai

import (
	"context"
	"net/http"

	"github.com/openmanus/openmanus/data"
)

// Check finds out within seconds whether the endpoint is worth playing
// against. First it asks for the list of models, which every server answers
// at once or, where it has none, with an error that is an answer too; then it
// asks for a reply of at most 16 tokens, with the parameters of r, which shows
// a wrong name, a wrong key and a parameter that the endpoint does not know.
// r's messages and limit are replaced.
func (c *Client) Check(ctx context.Context, r Request) error {
	_, fault := c.once(ctx, http.MethodGet, modelsPath, nil, c.o.CheckTimeout)
	if fault != nil {
		switch fault.Kind { // of anything else the next question tells more: a key may not be allowed to list models
		case KindConnection, KindTimeout, KindCancelled:
			return fault
		}
	}
	r.Messages = []data.Message{{Role: "user", Content: "Say yes."}}
	r.MaxTokens = 16
	_, err := c.chat(ctx, r, min(c.o.Attempts, 3))
	return err
}
