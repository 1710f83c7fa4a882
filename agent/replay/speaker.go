package replay

import (
	"context"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/text"
)

// speaker says what an endpoint said, turn by turn, from the record.
type speaker struct{ *reader }

// speaking is the engine of an episode that is replayed by its texts.
func (r *reader) speaking() engine.Engine { return &text.Engine{Speaker: speaker{r}} }

// Say implements text.Speaker. What the endpoint was shown is in the
// conversation, which is compared as a whole.
func (s speaker) Say(_ context.Context, a text.Ask) (text.Said, error) {
	s.turn = a.Params.Turn + 1
	if a.Params.Turn >= len(s.ep.Turns) {
		s.found.add(Difference{Turn: s.turn, What: InPrompt, Recorded: "the end of the episode", Replayed: "another turn"})
		return text.Said{}, errParted
	}
	t := &s.ep.Turns[a.Params.Turn]
	return text.Said{Text: t.Text, Stop: engine.StopReason(t.Stop)}, nil
}
