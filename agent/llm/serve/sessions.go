package serve

import (
	"context"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
)

// Sessions generates the replies of requests with the header X-Session-Id, which are the
// turns of one episode. Many goroutines call it.
type Sessions interface {
	Generate(ctx context.Context, r SessionRequest) (engine.Reply, error)
}

// SessionRequest is a request within a session. Either Messages or Prompt is set.
type SessionRequest struct {
	ID       string
	Task     string // "" if the request names none
	Messages []data.Message
	Prompt   []int32
	Sampling Sampling
	MaxNew   int // 0: no limit in the request
	Stops    []string
	Top      int
	// Begin is called with the ids before the reply, before the first token is sampled.
	Begin func(prompt []int32)
	// Each receives the tokens of the reply; see engine.Params.
	Each func(engine.Token)
}
