package agent

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// Prompting is a Format that writes the prompt anew for every turn instead of
// appending to what was said. Every turn is then a context of its own: the
// model sees the prompt and nothing else, and so does training.
type Prompting interface {
	Format
	// Begin makes what writes the prompts of one episode. An episode may begin
	// several, to find how much of its first observation fits, and goes on with
	// the last: Prompt without a Past must have no effect outside of its Prompter.
	Begin(task data.Task, sample int) Prompter
}

// Prompter writes the prompts of one episode, in one goroutine.
type Prompter interface {
	// Prompt is what the model is shown after the instruction. It is asked
	// once a turn, in order.
	Prompt(ctx context.Context, s PromptState) (string, error)
}

// PromptState is what an episode has come to before a turn.
type PromptState struct {
	Past        []Step
	Observation string // the newest, as far as the model may see it
}

// Step is a turn that is over, with the observation that it began with.
type Step struct {
	Observation, Reply, Action string
	Parsed                     bool
}

// FormatOptions are what some formats can be told.
type FormatOptions struct {
	HistoryLength int        // past turns in a prompt of history and staged; 0: none
	MemoryFile    string     // of staged; "": an episode remembers only itself
	Summarizer    Summarizer // of history: its words in place of past turns; nil: none
}

// Fitting is a Format that depends on the environment or on options. What Fit
// returns is the format that episodes are played in.
type Fitting interface {
	Format
	Fit(spec env.Spec, o FormatOptions) (Format, error)
}

// FormatFor finds a format by name and fits it to an environment.
func FormatFor(name string, spec env.Spec, o FormatOptions) (Format, error) {
	f, err := Formats.Lookup(name)
	if err != nil {
		return nil, err
	}
	if fitting, ok := f.(Fitting); ok {
		if f, err = fitting.Fit(spec, o); err != nil {
			return nil, fmt.Errorf("format %s in %s: %w", name, spec.Name, err)
		}
	}
	return f, nil
}

// prompt writes the prompt of the next turn and gives its ids.
func (p *player) prompt(ctx context.Context) ([]int32, error) {
	text, err := p.prompter.Prompt(ctx, p.state)
	if err != nil {
		return nil, fmt.Errorf("write the prompt of turn %d: %w", len(p.ep.Turns)+1, err)
	}
	if p.lastPrompt, err = Opening(p.ep.Instruction, text, p.Options.InstructionRole); err != nil {
		return nil, err
	}
	return p.render(p.lastPrompt)
}

// restartContext begins a context for the turn after t.
func (p *player) restartContext(ctx context.Context, t *data.Turn) ([]int32, error) {
	text, err := p.shorten(t, func(text string) ([]int32, error) {
		return p.Renderer.Start([]data.Message{{Role: RoleUser, Content: text}})
	})
	if err != nil {
		return nil, err
	}
	p.ep.Messages = append(p.ep.Messages, data.Message{Role: RoleUser, Content: text})
	p.state.Past = append(p.state.Past, Step{Observation: p.state.Observation, Reply: t.Text, Action: t.Action, Parsed: t.Parsed})
	p.state.Observation = text
	ids, err := p.prompt(ctx)
	if err != nil {
		return nil, err
	}
	p.contextStart = len(p.ep.Tokens)
	p.session, err = engine.Restart(ctx, p.Engine, p.session)
	return ids, err
}
