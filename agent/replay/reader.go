package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/text"
	"github.com/openmanus/openmanus/data"
)

// errDiverged ends the replay of an episode that differs from the record.
var errDiverged = errors.New("the replayed episode has diverged from the record")

// reader is the engine of one episode: it compares the prompt ids with the record
// and calls the inner engine, whose teacher forces the recorded replies. Without
// an inner engine it returns the recorded replies.
type reader struct {
	inner engine.Engine // nil: no model
	ep    *data.Episode
	turn  int // number of the newest reply, from 1
	found *findings
}

// Open implements engine.Engine.
func (r *reader) Open(ctx context.Context, o engine.SessionOptions) (*engine.Session, error) {
	if r.inner == nil {
		return engine.NewSession(o, r), nil
	}
	return r.inner.Open(ctx, o)
}

// Close implements engine.Engine.
func (r *reader) Close(s *engine.Session) {
	if r.inner != nil {
		r.inner.Close(s)
	}
}

// Generate implements engine.Engine.
func (r *reader) Generate(ctx context.Context, s *engine.Session, ids []int32, p engine.Params) (engine.Reply, error) {
	r.turn = p.Turn + 1
	if p.Turn >= len(r.ep.Turns) {
		r.found.add(Difference{Turn: r.turn, What: InPrompt, At: len(r.ep.Tokens), Recorded: "the end of the episode", Replayed: "another turn"})
		return engine.Reply{}, errDiverged
	}
	t, start := &r.ep.Turns[p.Turn], r.promptStart(p.Turn)
	prompt, recorded := r.ep.Tokens[start:t.Start], r.ep.Tokens[t.Start:t.End]
	series(r.found, r.turn, InPrompt, start, prompt, ids)
	if len(prompt) != len(ids) { // later positions are shifted and cannot be compared
		return engine.Reply{}, errDiverged
	}
	if r.inner == nil {
		return engine.Reply{IDs: recorded, LogProbs: r.ep.LogProbs[t.Start:t.End], Kept: t.Kept, Stop: engine.StopReason(t.Stop), Version: r.ep.WeightVersion, Behind: t.Behind}, nil
	}
	p.MaxNew = min(p.MaxNew, max(1, len(recorded))) // at most the recorded length
	reply, err := r.inner.Generate(ctx, s, ids, p)
	if err != nil {
		return reply, fmt.Errorf("turn %d: %w", r.turn, err)
	}
	if len(reply.IDs) != len(recorded) {
		series(r.found, r.turn, InIDs, t.Start, recorded, reply.IDs)
		return engine.Reply{}, errDiverged
	}
	return reply, nil
}

// Restart implements engine.Restarter.
func (r *reader) Restart(s *engine.Session) error {
	if r.inner == nil {
		return nil
	}
	inner, ok := r.inner.(engine.Restarter)
	if !ok {
		return errors.New("the engine cannot restart a session's context")
	}
	return inner.Restart(s)
}

// place returns the index of a draw's token in the recorded episode.
func (r *reader) place(d engine.Draw) int {
	if d.Turn >= len(r.ep.Turns) {
		return d.Position
	}
	return r.ep.ContextStart(r.ep.Turns[d.Turn].Start) + d.Position
}

// promptStart returns the index of the first id of a turn's prompt.
func (r *reader) promptStart(turn int) int {
	if turn == 0 {
		return 0
	}
	return r.ep.Turns[turn-1].End
}

// recordedTemplate is the agent.Renderer of an episode that is replayed without a
// tokenizer: it returns the recorded ids.
type recordedTemplate struct {
	*reader
	context int // size of the context in tokens
}

// Start implements agent.Renderer. It starts the first context or, under a
// Prompting format, the context of the next turn.
func (r recordedTemplate) Start([]data.Message) ([]int32, error) { return r.ids() }

// Next implements agent.Renderer.
func (r recordedTemplate) Next(bool, int32, []data.Message) ([]int32, error) { return r.ids() }

// ids returns the prompt ids of the next reply.
func (r recordedTemplate) ids() ([]int32, error) {
	if r.turn == len(r.ep.Turns) {
		// The recorded episode ended because this prompt did not fit into the
		// context, or the replay has diverged.
		return make([]int32, r.context), nil
	}
	return r.ep.Tokens[r.promptStart(r.turn):r.ep.Turns[r.turn].Start], nil
}

// StopTokens implements agent.Renderer.
func (recordedTemplate) StopTokens() []int32 { return nil }

// Decode implements agent.Renderer.
func (r recordedTemplate) Decode([]int32) string { return r.ep.Turns[r.turn-1].Text }

// speaker returns an endpoint's replies from the record, turn by turn.
type speaker struct{ *reader }

// Reply implements text.Speaker. The prompt is part of the conversation, which is
// compared as a whole.
func (s speaker) Reply(_ context.Context, a text.Request) (text.Reply, error) {
	s.turn = a.Params.Turn + 1
	if a.Params.Turn >= len(s.ep.Turns) {
		s.found.add(Difference{Turn: s.turn, What: InPrompt, Recorded: "the end of the episode", Replayed: "another turn"})
		return text.Reply{}, errDiverged
	}
	t := &s.ep.Turns[a.Params.Turn]
	return text.Reply{Text: t.Text, Stop: engine.StopReason(t.Stop)}, nil
}
